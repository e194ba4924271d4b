import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { apiVersionOf, isNotFound, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { ApplyConfiguration, Client } from "@keelson/client";
import { parseAllDocuments } from "yaml";
import { collect } from "./collect.ts";

/** The tour's namespace. */
export const namespace = "default";

/** Returns the path of a file below `examples/`: the copy that the build adds to the package, or else that of the checkout. */
export function examplePath(name: string): string {
  const packed = fileURLToPath(new URL(`../examples/${name}`, import.meta.url));
  return existsSync(packed) ? packed : fileURLToPath(new URL(`../../../../examples/${name}`, import.meta.url));
}

/** Reads the objects of an example. */
export function readExample(name: string): KubernetesObject[] {
  const documents = parseAllDocuments(readFileSync(examplePath(name), "utf8"));
  return documents.map((document) => document.toJS() as KubernetesObject | null).filter((object) => object !== null);
}

/** Applies an object server-side and rejects unknown fields. */
export async function applyManifest(
  client: Client,
  types: readonly ResourceType[],
  manifest: KubernetesObject,
  signal: AbortSignal,
): Promise<void> {
  const type = types.find((each) => apiVersionOf(each) === manifest.apiVersion && each.kind === manifest.kind);
  if (!type) throw new Error(`${manifest.apiVersion} ${manifest.kind} is not a kind of this part of the tour`);
  const { apiVersion: _apiVersion, kind: _kind, ...rest } = manifest;
  const metadata = { namespace, ...manifest.metadata, name: manifest.metadata.name ?? "" };
  const configuration: ApplyConfiguration<KubernetesObject> = { ...rest, metadata };
  await client.apply(type, configuration, { fieldManager: "keelson-tour", fieldValidation: "Strict", signal });
}

/** Deletes an object of an earlier run and its dependents, and waits until they are gone. */
export async function removeOld(client: Client, type: ResourceType, name: string, signal: AbortSignal): Promise<void> {
  try {
    await client.delete(type, { namespace, name }, { propagationPolicy: "Foreground", signal });
  } catch (error) {
    if (isNotFound(error)) return;
    throw error;
  }
  const selection = { type, namespace, fieldSelector: `metadata.name=${name}` };
  await collect(
    client,
    [selection],
    signal,
    () => {},
    (seen) => seen.of(type).length === 0,
  );
}
