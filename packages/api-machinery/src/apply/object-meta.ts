import type { Schema } from "../schema/schema.ts";

const text: Schema = { type: "string" };
const time: Schema = { type: "string", format: "date-time" };
const integer: Schema = { type: "integer", format: "int64" };
const strings: Schema = { type: "object", additionalProperties: text };

/**
 * The schema of `metadata` (meta/v1 ObjectMeta), as far as field management needs it. CustomResourceDefinitions say no more
 * than `metadata: {type: object}`, yet labels are owned one by one, finalizers are a set and owner references are keyed.
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
    generation: integer,
    creationTimestamp: time,
    deletionTimestamp: time,
    deletionGracePeriodSeconds: integer,
    clusterName: text,
    labels: strings,
    annotations: strings,
    ownerReferences: {
      type: "array",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["uid"],
      items: {
        type: "object",
        "x-kubernetes-map-type": "atomic",
        required: ["apiVersion", "kind", "name", "uid"],
        properties: {
          apiVersion: text,
          kind: text,
          name: text,
          uid: text,
          controller: { type: "boolean" },
          blockOwnerDeletion: { type: "boolean" },
        },
      },
    },
    finalizers: { type: "array", "x-kubernetes-list-type": "set", items: text },
    managedFields: {
      type: "array",
      "x-kubernetes-list-type": "atomic",
      items: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    },
  },
};
