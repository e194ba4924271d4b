import { unsafeSysctlProblem } from "@keelson/cluster/sysctls";
import { type FlagDefinition, type FlagValues, invalidFlag, listFlag } from "@keelson/operator/flags";

const list = listFlag({
  name: "allowed-unsafe-sysctls",
  value: "NAMES",
  description:
    "sysctls beyond the safe ones that Pods of this node may set, separated by commas: names, or patterns such as kernel.msg*",
});

/** The flag for the kernel parameters that Pods may set beyond the safe ones, as the kubelet's. */
export const allowedSysctlsFlag: FlagDefinition = list;

/** Reads {@link allowedSysctlsFlag}. Throws a `UsageError` for a parameter that does not belong to a namespace. */
export function readAllowedSysctls(flags: FlagValues): readonly string[] {
  const patterns = list.read(flags).flatMap((text) => text.split(","));
  for (const pattern of patterns) {
    const problem = unsafeSysctlProblem(pattern);
    if (problem !== undefined) throw invalidFlag(list, pattern, problem);
  }
  return patterns;
}
