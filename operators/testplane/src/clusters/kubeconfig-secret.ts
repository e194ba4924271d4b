import { Secret } from "@keelson/api-machinery/kinds";
import { describeTarget, type Observation, type Target } from "../evaluation/target.ts";
import { stringAt } from "../functions/read.ts";
import type { KubeconfigText } from "./cluster-connections.ts";

/** Key of the kubeconfig in its Secret, unless a test names another one. */
const defaultKey = "kubeconfig";

/** The Secret of a kubeconfig. */
export const secretTarget = (name: string, namespace: string): Target => ({
  apiVersion: Secret.version,
  kind: Secret.kind,
  namespace,
  name,
});

/** The kubeconfig in a Secret, or why there is none. */
export function kubeconfigOf(observation: Observation, target: Target, key = defaultKey): KubeconfigText | string {
  const secret = describeTarget(target);
  if (observation.kind !== "known") {
    const error = observation.kind === "loading" ? observation.error : undefined;
    return `cannot read ${secret} yet${error === undefined ? "" : `: ${error}`}`;
  }
  const [object] = observation.objects;
  if (object === undefined) return `${secret} not found`;
  const data = stringAt(object, "data", key);
  if (data === "") return `${secret} has no key ${JSON.stringify(key)}`;
  return { source: `${secret}, key ${key}`, text: Buffer.from(data, "base64").toString("utf8") };
}
