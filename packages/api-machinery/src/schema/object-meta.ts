import type { Schema } from "./schema.ts";

const text: Schema = { type: "string" };
const time: Schema = { type: "string", format: "date-time", nullable: true };
const textMap: Schema = { type: "object", additionalProperties: text };

const ownerReference: Schema = {
  type: "object",
  required: ["apiVersion", "kind", "name", "uid"],
  properties: {
    apiVersion: text,
    kind: text,
    name: text,
    uid: text,
    controller: { type: "boolean" },
    blockOwnerDeletion: { type: "boolean" },
  },
  "x-kubernetes-map-type": "atomic",
};

const managedFieldsEntry: Schema = {
  type: "object",
  properties: {
    manager: text,
    operation: text,
    apiVersion: text,
    time,
    fieldsType: text,
    fieldsV1: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    subresource: text,
  },
};

/**
 * The schema of `metadata` of every object (meta/v1 ObjectMeta), with its list types and merge keys. CRDs only say `metadata:
 * {type: object}`, but field ownership needs to know that labels are granular, finalizers are a set and owner references are
 * keyed.
 */
export const objectMetaSchema: Schema = {
  type: "object",
  properties: {
    name: text,
    generateName: text,
    namespace: text,
    selfLink: text,
    uid: text,
    resourceVersion: text,
    generation: { type: "integer", format: "int64" },
    creationTimestamp: time,
    deletionTimestamp: time,
    deletionGracePeriodSeconds: { type: "integer", format: "int64" },
    labels: textMap,
    annotations: textMap,
    ownerReferences: {
      type: "array",
      items: ownerReference,
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["uid"],
      "x-go-zero-keys": true,
      "x-kubernetes-patch-merge-key": "uid",
      "x-kubernetes-patch-strategy": "merge",
    },
    finalizers: {
      type: "array",
      items: text,
      "x-kubernetes-list-type": "set",
      "x-kubernetes-patch-strategy": "merge",
    },
    managedFields: { type: "array", items: managedFieldsEntry, "x-kubernetes-list-type": "atomic" },
  },
};

/**
 * Completes the schema of a CRD version, which implies `apiVersion`, `kind` and `metadata`, by specifying all three. Keeps
 * the CRD's constraints on `metadata.name` and `generateName`.
 */
export function completeObjectSchema(schema: Schema): Schema {
  const own = schema.properties?.metadata?.properties;
  const restrict = (name: string): Schema => ({ ...objectMetaSchema.properties?.[name], ...own?.[name] });
  const metadata: Schema = own
    ? {
        ...objectMetaSchema,
        properties: { ...objectMetaSchema.properties, name: restrict("name"), generateName: restrict("generateName") },
      }
    : objectMetaSchema;
  return { ...schema, type: "object", properties: { apiVersion: text, kind: text, ...schema.properties, metadata } };
}
