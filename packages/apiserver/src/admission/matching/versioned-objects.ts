import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { convertObject } from "../../endpoints/object/convert-object.ts";
import type { ResourceTable, ServedResource } from "../../registry/served-resource.ts";
import type { AdmissionRequest } from "../admission.ts";

/** The objects of a request in the version that a webhook or policy expects. */
export interface VersionedObjects {
  readonly object: DeepReadonly<KubernetesObject> | undefined;
  readonly oldObject: DeepReadonly<KubernetesObject> | undefined;
}

/** Returns the objects of a request in the version of `to`. Rejects with a `StatusError` if they cannot be converted. */
export async function versionedObjects(
  request: AdmissionRequest,
  to: ServedResource,
  resources: Pick<ResourceTable, "get">,
): Promise<VersionedObjects> {
  const { object, oldObject, resource, kind } = request;
  if (to === resource || kind !== undefined) return { object, oldObject };
  return {
    object: object === undefined ? undefined : await convertObject(object, resource, to, resources),
    oldObject: oldObject === undefined ? undefined : await convertObject(oldObject, resource, to, resources),
  };
}
