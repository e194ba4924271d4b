import { textFlag } from "@keelson/operator/flags";

/** `--namespace` of every command. */
export const namespaceFlag = textFlag({
  name: "namespace",
  value: "NAMESPACE",
  description: "namespace of the job",
  default: "default",
});
