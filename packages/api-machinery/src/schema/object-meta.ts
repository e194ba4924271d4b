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
 * The schema of `metadata` of every object (meta/v1 ObjectMeta), with its list types and merge keys. CustomResourceDefinitions say no
 * more than `metadata: {type: object}`, yet labels are owned one by one, finalizers are a set and owner references are keyed.
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
 * A whole object's schema out of that of a CRD's version, where `apiVersion`, `kind` and `metadata` are implied: the same
 * with these three specified in full. What the CRD says of `metadata.name` and `generateName` is kept.
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
