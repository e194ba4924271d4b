import type { ProgramCgroup } from "../../cgroup/cgroup.ts";
import type { Limits, ProgramSpec } from "../../driver.ts";
import type { Identity, LaunchedProgram } from "../../process/launcher.ts";
import { hasPrivateUser } from "../users/program-user.ts";

/** Encodes limits as part of a program's identity. */
export function limitsToJson(cgroup: LaunchedProgram["limits"]): Identity {
  return {
    ...(cgroup.applied.cpuMillis !== undefined && { cpuMillis: cgroup.applied.cpuMillis }),
    ...(cgroup.applied.cpuShares !== undefined && { cpuShares: cgroup.applied.cpuShares }),
    ...(cgroup.applied.memoryBytes !== undefined && { memoryBytes: cgroup.applied.memoryBytes }),
    ...(cgroup.applied.pids !== undefined && { pids: cgroup.applied.pids }),
    ...(cgroup.applied.diskBytes !== undefined && { diskBytes: cgroup.applied.diskBytes }),
    ...(cgroup.message !== undefined && { limitsMessage: cgroup.message }),
  };
}

/** Decodes what {@link limitsToJson} encoded. */
export function limitsFromJson(identity: Identity): LaunchedProgram["limits"] {
  const number = (key: "cpuMillis" | "cpuShares" | "memoryBytes" | "pids" | "diskBytes"): Limits =>
    typeof identity[key] === "number" ? { [key]: identity[key] } : {};
  return {
    applied: {
      ...number("cpuMillis"),
      ...number("cpuShares"),
      ...number("memoryBytes"),
      ...number("pids"),
      ...number("diskBytes"),
    },
    ...(typeof identity.limitsMessage === "string" && { message: identity.limitsMessage }),
  };
}

/** The limits that are enforced for a container: all, but the disk's for a program with a private user only. */
export function containerLimits(spec: ProgramSpec): LaunchedProgram["limits"] {
  const { diskBytes, ...applied } = spec.limits ?? {};
  if (diskBytes === undefined) return { applied };
  if (hasPrivateUser(spec)) return { applied: { ...applied, diskBytes } };
  return { applied, message: "not enforced: diskBytes: requires a private user" };
}

/** Adds the disk limit to the applied limits, or to the message about those that are not enforced. */
export function withDiskLimit(cgroup: ProgramCgroup, { limits }: ProgramSpec, diskBytes: number | undefined): ProgramCgroup {
  if (diskBytes !== undefined) return { ...cgroup, applied: { ...cgroup.applied, diskBytes } };
  if (limits?.diskBytes === undefined) return cgroup;
  const message = "diskBytes: requires root and bubblewrap with a private user";
  return { ...cgroup, message: cgroup.message === undefined ? `not enforced: ${message}` : `${cgroup.message}; ${message}` };
}
