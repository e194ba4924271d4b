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

/** A policy without the drivers whose programs are not installed. */
export function agentPolicyOf(
  robotId: string,
  policy: RobotPolicy,
  exists: (path: string) => boolean = existsSync,
): AgentPolicy {
  const hasJava = defaultPath.split(":").some((folder) => exists(join(folder, "java")));
  if (hasJava || !policy.drivers.includes("java")) return { robotId, ...policy };
  const drivers = policy.drivers.filter((driver) => driver !== "java");
  return { robotId, ...policy, drivers, unavailable: { java: `java is not installed in ${defaultPath}` } };
}
