import { countFlag } from "@keelson/operator/flags";

/** The flag for the number of terminated Pods that are kept, as kube-controller-manager's. */
export const terminatedPodThresholdFlag = countFlag({
  name: "terminated-pod-gc-threshold",
  value: "N",
  description: "number of terminated Pods above which the oldest are deleted, 0 keeps all",
  default: "12500",
});
