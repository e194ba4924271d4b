import { apiVersionOf, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { type FieldManagementContext, runSteps } from "@keelson/api-machinery/server";
import { definitionNameOfKind, definitionOf } from "../../registry/builtin/definition.ts";
import type { Call } from "../call.ts";
import { convertCustomObjects } from "../object/convert-object.ts";
import { applyZeroValues } from "../object/zero-values.ts";
import { writeNullLists } from "../object/null-lists.ts";
import { qualifiedResource } from "../errors.ts";
import type { WriteOptions } from "./write-options.ts";

/** The inputs of field management for a write. */
export function fieldContext(
  call: Call,
  options: WriteOptions,
  subresource: string,
  time = call.timestamps.now(),
): FieldManagementContext {
  const { resource } = call;
  return {
    schema: resource.schema,
    manager: options.fieldManager,
    apiVersion: apiVersionOf(resource),
    subresource,
    time,
    hasStatus: resource.hasStatus,
    isBuiltIn: resource.origin === "builtin",
    ...ownResetFields(resource, subresource),
    ...emptyFieldsOf(resource),
  };
}

/** The fields that an endpoint resets, where the kind differs from the others. */
function ownResetFields(
  resource: Call["resource"],
  subresource: string,
): Pick<FieldManagementContext, "resetFields"> | undefined {
  if (resource.origin !== "builtin") return undefined;
  const resetFields = resetFieldsByEndpoint[`${qualifiedResource(resource)}/${subresource}`];
  return resetFields === undefined ? undefined : { resetFields };
}

/** The fields of an empty object of a built-in kind. */
function emptyFieldsOf({
  origin,
  group,
  version,
  kind,
}: Call["resource"]): Pick<FieldManagementContext, "emptyFields"> | undefined {
  const name = origin === "builtin" ? definitionNameOfKind(group, version, kind) : undefined;
  if (name === undefined) return undefined;
  const emptyFields: JsonObject = {};
  runSteps(applyZeroValues(definitionOf(name), emptyFields));
  runSteps(writeNullLists(definitionOf(name), emptyFields));
  return { emptyFields };
}

const allButStatus = [["metadata"], ["spec"]];
const resetFieldsByEndpoint: Readonly<Record<string, FieldManagementContext["resetFields"]>> = {
  "certificatesigningrequests.certificates.k8s.io/": [["spec"], ["status"]],
  "certificatesigningrequests.certificates.k8s.io/approval": [["spec"], ["status", "certificate"]],
  "certificatesigningrequests.certificates.k8s.io/status": [["spec"], ["status", "conditions"]],
  "customresourcedefinitions.apiextensions.k8s.io/status": allButStatus,
  "apiservices.apiregistration.k8s.io/status": allButStatus,
  "deployments.apps/status": [["spec"], ["metadata", "labels"]],
  "flowschemas.flowcontrol.apiserver.k8s.io/status": allButStatus,
  "pods/status": [["spec"], ["metadata", "deletionTimestamp"], ["metadata", "ownerReferences"]],
  "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io/status": allButStatus,
  "resourceclaims.resource.k8s.io/status": allButStatus,
  "storageversionmigrations.storagemigration.k8s.io/status": allButStatus,
  "validatingadmissionpolicies.admissionregistration.k8s.io/status": allButStatus,
  "volumeattachments.storage.k8s.io/status": allButStatus,
};

/**
 * Converts an object to its storage version. Returns a promise only for a custom object of another version; it rejects with a `StatusError`
 * if a conversion webhook fails.
 */
export function toStorageVersion(
  { resource, resources }: Call,
  object: KubernetesObject,
): KubernetesObject | Promise<KubernetesObject> {
  if (resource.conversion !== undefined) return resource.conversion.toStorage(object);
  const { storageApiVersion } = resource;
  if (object.apiVersion === storageApiVersion) return object;
  return convertCustomObjects(resource, resources, [object], storageApiVersion).then(([converted = object]) => converted);
}
