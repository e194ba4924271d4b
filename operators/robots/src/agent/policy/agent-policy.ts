import { existsSync } from "node:fs";
import { join } from "node:path";
import { defaultPath } from "@keelson/execution";
import type { RobotPolicy } from "./robot-policy.ts";

/** What a robot can and may run. */
export interface AgentPolicy extends RobotPolicy {
  readonly robotId: string;
  /** Why drivers that the owner allows cannot be used, by name. They are not in {@link drivers}. */
  readonly unavailable?: Readonly<Record<string, string>>;
}

/** A policy without the drivers that cannot be used. `noContainers`: why containers cannot be. */
export function agentPolicyOf(
  robotId: string,
  policy: RobotPolicy,
  { exists = existsSync, noContainers }: { readonly exists?: (path: string) => boolean; readonly noContainers?: string } = {},
): AgentPolicy {
  const hasJava = defaultPath.split(":").some((folder) => exists(join(folder, "java")));
  const unavailable = {
    ...(!hasJava && policy.drivers.includes("java") && { java: `java is not installed in ${defaultPath}` }),
    ...(noContainers !== undefined && policy.drivers.includes("docker") && { docker: noContainers }),
  };
  if (Object.keys(unavailable).length === 0) return { robotId, ...policy };
  const drivers = policy.drivers.filter((driver) => !Object.hasOwn(unavailable, driver));
  return { robotId, ...policy, drivers, unavailable };
}
