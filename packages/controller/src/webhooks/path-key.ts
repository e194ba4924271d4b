import { createHmac, timingSafeEqual } from "node:crypto";
import type { KeyPair } from "@keelson/api-machinery/certificates";

/**
 * The first segment of the paths under which the webhooks of a Service are registered. It proves that a review comes from the API server,
 * which reads it in the webhook configuration: kube-apiserver presents a client certificate only if it is configured to. All replicas derive
 * it from the authority that they share.
 */
export const pathKeyOf = ({ key }: Pick<KeyPair, "key">): string =>
  createHmac("sha256", key).update("keelson webhook path").digest("hex");

/** Splits a path into its key and the path of the webhook. Undefined without a key. */
export function splitPath(path: string): { readonly key: string; readonly rest: string } | undefined {
  const match = /^\/([0-9a-f]{64})(\/.*)$/.exec(path);
  return match === null ? undefined : { key: match[1] ?? "", rest: match[2] ?? "" };
}

/** Whether a key is one of those that are accepted. */
export function isAcceptedKey(key: string, accepted: readonly string[]): boolean {
  return accepted.some((each) => timingSafeEqual(Buffer.from(each, "hex"), Buffer.from(key, "hex")));
}
