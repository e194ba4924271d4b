import { Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { SandboxVolume } from "../api/sandbox-volume.ts";
import { watched } from "@keelson/client/testing";

/** Deletes every Sandbox and pool of a namespace as a user would, and waits until they and their agents are deleted. */
export async function deleteAll(client: Client, namespace = "default"): Promise<void> {
  for (const { metadata } of (await client.list(Sandbox, { namespace })).items) {
    await client.delete(Sandbox, { namespace, name: metadata.name ?? "" });
    await watched(client, Sandbox, metadata.name ?? "", (each) => each === undefined, namespace);
  }
  for (const { metadata } of (await client.list(SandboxVolume, { namespace })).items) {
    await client.delete(SandboxVolume, { namespace, name: metadata.name ?? "" });
    await watched(client, SandboxVolume, metadata.name ?? "", (each) => each === undefined, namespace);
  }
  for (const { metadata } of (await client.list(SandboxPool, { namespace })).items) {
    await client.delete(SandboxPool, { namespace, name: metadata.name ?? "" });
    await watched(client, SandboxPool, metadata.name ?? "", (each) => each === undefined, namespace);
  }
  for (const { metadata } of (await client.list(Pod, { namespace })).items)
    await watched(client, Pod, metadata.name ?? "", (each) => each === undefined, namespace);
}
