import { fileURLToPath } from "node:url";
import { escaped } from "./escaped.ts";

/** Where a program of Keelson is: in an image, or in this installation. */
export interface KeelsonProgram {
  readonly command: readonly string[];
  /** Absent: Pods are processes of this machine. */
  readonly image?: string;
}

/** The container of a program that gets its plan in an environment variable. In an image it has no privileges. */
export function keelsonContainer(
  name: string,
  { command, image }: KeelsonProgram,
  plan: { readonly variable: string; readonly value: unknown },
): Readonly<Record<string, unknown>> {
  const confined = {
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    },
  };
  return {
    name,
    image: image ?? "keelson",
    command: [...command],
    env: [{ name: plan.variable, value: escaped(JSON.stringify(plan.value)) }],
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...(image === undefined ? {} : confined),
  };
}

/** Path of a built program of this package, even if this module runs from source. `path`: below `src`, without its extension. */
export function builtProgram(path: string): string {
  const isSource = import.meta.url.endsWith(".ts");
  return fileURLToPath(new URL(`${isSource ? "../../dist" : ".."}/${path}.js`, import.meta.url));
}
