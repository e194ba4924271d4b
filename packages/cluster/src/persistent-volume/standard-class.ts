import { isAlreadyExists } from "@keelson/api-machinery";
import { StorageClass } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { defaultClassAnnotation, directoryProvisioner } from "./claim-decision.ts";

/** Creates the default StorageClass `standard` if it does not exist. An existing one is not changed. */
export async function ensureStandardClass(client: Client): Promise<void> {
  try {
    await client.create(StorageClass, {
      metadata: { name: "standard", annotations: { [defaultClassAnnotation]: "true" } },
      provisioner: directoryProvisioner,
      reclaimPolicy: "Delete",
      volumeBindingMode: "Immediate",
      allowVolumeExpansion: true,
    });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}
