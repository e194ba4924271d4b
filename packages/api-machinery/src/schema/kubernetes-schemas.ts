import type { TUnsafe } from "typebox";
import type { Condition } from "../objects/object.ts";
import type { LabelSelector } from "../selectors/label-selector.ts";
import type { Schema } from "./schema.ts";

/** Options of every schema here; they are added to it. */
export type SchemaOptions = Pick<Schema, "description" | "default" | "nullable" | "title" | "x-kubernetes-validations">;

/** Creates a schema with the static type `T`, like TypeBox's `Type.Unsafe` but without loading TypeBox. */
export function typedSchema<T>(schema: Schema): TUnsafe<T> {
  return Object.defineProperty({ ...schema }, "~unsafe", {
    value: null,
    enumerable: false,
    configurable: true,
  }) as object as TUnsafe<T>;
}

/** A Kubernetes quantity such as `500m`, `2Gi` or the number 3. */
export function quantitySchema(options: SchemaOptions = {}): TUnsafe<string | number> {
  return typedSchema({
    "x-kubernetes-int-or-string": true,
    anyOf: [{ type: "integer" }, { type: "string" }],
    pattern:
      "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
    ...options,
  });
}

/** A non-negative Go duration such as `30s` or `1h30m` (meta/v1 Duration). Parse it with `parseDuration`. */
export function durationSchema(options: SchemaOptions = {}): TUnsafe<string> {
  return typedSchema({
    type: "string",
    format: "duration",
    pattern: "^(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$",
    ...options,
  });
}

/** A number or a string, such as a port or a percentage (`IntOrString`). */
export function intOrStringSchema(options: SchemaOptions & Pick<Schema, "pattern"> = {}): TUnsafe<number | string> {
  return typedSchema({ "x-kubernetes-int-or-string": true, anyOf: [{ type: "integer" }, { type: "string" }], ...options });
}

/** An RFC 3339 time (meta/v1 Time, MicroTime). */
export function timeSchema(options: SchemaOptions = {}): TUnsafe<string> {
  return typedSchema({ type: "string", format: "date-time", ...options });
}

/** The standard `status.conditions`: a list of meta/v1 Condition keyed by type, so that server-side apply merges it. */
export function conditionsSchema(options: SchemaOptions = {}): TUnsafe<Condition[]> {
  return typedSchema({
    type: "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    items: {
      type: "object",
      required: ["type", "status", "lastTransitionTime", "reason", "message"],
      properties: {
        type: {
          type: "string",
          description: "Type of the condition in CamelCase, such as Ready or Progressing.",
          maxLength: 316,
          pattern:
            "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        status: { type: "string", enum: ["True", "False", "Unknown"], description: "Status of the condition." },
        observedGeneration: {
          type: "integer",
          format: "int64",
          minimum: 0,
          description: "metadata.generation that the condition was observed at.",
        },
        lastTransitionTime: { type: "string", format: "date-time", description: "Time of the last change of status." },
        reason: {
          type: "string",
          description: "Machine-readable reason for the status, in CamelCase.",
          minLength: 1,
          maxLength: 1024,
          pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        message: { type: "string", maxLength: 32768, description: "Human-readable details of the status." },
      },
    },
    ...options,
  });
}

/** A label selector (meta/v1 LabelSelector). Match with `selectorFromObject`. */
export function labelSelectorSchema(options: SchemaOptions = {}): TUnsafe<LabelSelector> {
  return typedSchema({
    type: "object",
    "x-kubernetes-map-type": "atomic",
    properties: {
      matchLabels: { type: "object", additionalProperties: { type: "string" } },
      matchExpressions: {
        type: "array",
        "x-kubernetes-list-type": "atomic",
        items: {
          type: "object",
          required: ["key", "operator"],
          properties: {
            key: { type: "string" },
            operator: { type: "string" },
            values: { type: "array", items: { type: "string" }, "x-kubernetes-list-type": "atomic" },
          },
        },
      },
    },
    ...options,
  });
}

/** An arbitrary object, stored unchanged. */
export function preserveUnknownObjectSchema(options: SchemaOptions = {}): TUnsafe<Record<string, unknown>> {
  return typedSchema({ type: "object", "x-kubernetes-preserve-unknown-fields": true, ...options });
}
