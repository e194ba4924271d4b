import type { Limits } from "../driver.ts";
import type { Identity, LaunchedProgram } from "../process/launcher.ts";

/** Encodes limits as part of a program's identity. */
export function limitsToJson(cgroup: LaunchedProgram["limits"]): Identity {
  return {
    ...(cgroup.applied.cpuMillis !== undefined && { cpuMillis: cgroup.applied.cpuMillis }),
    ...(cgroup.applied.memoryBytes !== undefined && { memoryBytes: cgroup.applied.memoryBytes }),
    ...(cgroup.applied.pids !== undefined && { pids: cgroup.applied.pids }),
    ...(cgroup.applied.diskBytes !== undefined && { diskBytes: cgroup.applied.diskBytes }),
    ...(cgroup.message !== undefined && { limitsMessage: cgroup.message }),
  };
}

/** Decodes what {@link limitsToJson} encoded. */
export function limitsFromJson(identity: Identity): LaunchedProgram["limits"] {
  const number = (key: "cpuMillis" | "memoryBytes" | "pids" | "diskBytes"): Limits =>
    typeof identity[key] === "number" ? { [key]: identity[key] } : {};
  return {
    applied: { ...number("cpuMillis"), ...number("memoryBytes"), ...number("pids"), ...number("diskBytes") },
    ...(typeof identity.limitsMessage === "string" && { message: identity.limitsMessage }),
  };
}
