import { choiceFlag } from "@keelson/operator/flags";

/** The flag for the runtime of Pods without a RuntimeClass. */
export const podRuntimeFlag = choiceFlag({
  name: "pod-runtime",
  value: "RUNTIME",
  choices: ["process", "bubblewrap", "containerd"],
  description:
    "runtime of Pods without a runtimeClassName: process, bubblewrap or containerd; process applies only to users with the verb use on runtimeclasses",
  default: "process",
});

/** The runtime of Pods without a RuntimeClass. */
export type PodRuntimeName = "process" | "bubblewrap" | "containerd";
