import { textFlag } from "@keelson/operator/flags";

/** `--namespace`. */
export const namespaceFlag = textFlag({
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the robots",
  default: "default",
});
