import type { JsonObject } from "@keelson/api-machinery";
import { generateName, type RandomSource } from "../endpoints/random-source.ts";
import { listAt, objectsAt, textAt } from "../registry/object-fields.ts";

/** Where containers find the token of their service account. */
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount";
/** A volume whose name begins like this is taken for one that an earlier run of this step added. */
const volumePrefix = "kube-api-access-";
/** One hour and a few seconds, by which API servers recognize the tokens that Pods have without having asked for them. */
const expirationSeconds = 3607;

/**
 * Adds a projected volume with a token of the Pod's service account, the cluster's CA and the Pod's namespace, and mounts it into all
 * containers that mount nothing at its path. Returns whether it changed the spec.
 */
export function addTokenVolume(spec: JsonObject, random: RandomSource): boolean {
  const missing = [...objectsAt(spec, "initContainers"), ...objectsAt(spec, "containers")].filter(
    (container) => !objectsAt(container, "volumeMounts").some((mount) => textAt(mount, "mountPath") === tokenPath),
  );
  if (missing.length === 0) return false;
  const volumes = objectsAt(spec, "volumes");
  const existing = volumes.map((volume) => textAt(volume, "name")).find((name) => name.startsWith(volumePrefix));
  const name = existing ?? generateName(volumePrefix, random);
  for (const container of missing) append(container, "volumeMounts", { name, readOnly: true, mountPath: tokenPath });
  if (existing === undefined) append(spec, "volumes", { name, projected: tokenProjection() });
  return true;
}

function append(object: JsonObject, field: string, value: JsonObject): void {
  object[field] = [...listAt(object, field), value] as JsonObject[];
}

function tokenProjection(): JsonObject {
  const namespace = { path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } };
  return {
    defaultMode: 0o644,
    sources: [
      { serviceAccountToken: { expirationSeconds, path: "token" } },
      { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
      { downwardAPI: { items: [namespace] } },
    ],
  };
}
