import { isAlreadyExists } from "@keelson/api-machinery";
import { StorageClass } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { defaultClassAnnotation, directoryProvisioner } from "./claim-decision.ts";

/** Makes the StorageClass `standard`, the default one, where there is none of that name. What somebody changed stays. */
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
