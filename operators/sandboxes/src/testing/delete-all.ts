import { isNotFound, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { SandboxVolume } from "../api/sandbox-volume.ts";
import { watched } from "@keelson/client/testing";

/** Deletes every Sandbox and pool of a namespace as a user would, and waits until they and their agents are deleted. */
export async function deleteAll(client: Client, namespace = "default"): Promise<void> {
  await deleteEach(client, Sandbox, namespace);
  await deleteEach(client, SandboxVolume, namespace);
  await deleteEach(client, SandboxPool, namespace);
  for (const { metadata } of (await client.list(Pod, { namespace })).items)
    await watched(client, Pod, metadata.name ?? "", (each) => each === undefined, namespace);
}

async function deleteEach<T extends KubernetesObject>(client: Client, type: ResourceType<T>, namespace: string): Promise<void> {
  for (const { metadata } of (await client.list(type, { namespace })).items) {
    const name = metadata.name ?? "";
    // The test may have deleted it before: it can be gone since it was listed.
    await client.delete(type, { namespace, name }).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
    await watched(client, type, name, (each) => each === undefined, namespace);
  }
}
