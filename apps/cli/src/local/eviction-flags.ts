import { defaultEviction, type EvictionSettings, parseThresholds } from "@keelson/cluster/eviction";
import { durationFlag, type FlagDefinition, type FlagValues, invalidFlag, textFlag } from "@keelson/operator/flags";

const hard = textFlag({
  name: "eviction-hard",
  value: "THRESHOLDS",
  description:
    "free disk space below which the node rejects new Pods and evicts running ones, in the kubelet's syntax: nodefs.available<5%,nodefs.inodesFree<5% (default: 10% but at most 1Gi, and 5% but at most 100000)",
});

const transition = durationFlag({
  name: "eviction-pressure-transition-period",
  value: "DURATION",
  description: "how long the disk must have enough free space before the node accepts new Pods again",
  default: "5m",
});

/** The flags for {@link EvictionSettings}. */
export const evictionFlags: readonly FlagDefinition[] = [hard, transition];

/** Reads {@link evictionFlags}. Throws a `UsageError` for invalid thresholds. */
export function readEvictionFlags(flags: FlagValues): EvictionSettings {
  const transitionMs = transition.read(flags);
  const text = hard.read(flags);
  if (text === undefined) return { ...defaultEviction, transitionMs };
  const thresholds = parseThresholds(text);
  if ("problem" in thresholds) throw invalidFlag(hard, text, thresholds.problem);
  return { thresholds, transitionMs };
}
