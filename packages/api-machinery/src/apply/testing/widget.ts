import { deepFreeze, type JsonObject } from "../../objects/json.ts";
import type { KubernetesObject } from "../../objects/object.ts";
import { isStatusError } from "../../protocol/status.ts";
import type { Schema } from "../../schema/schema.ts";
import { applyConfiguration } from "../apply-configuration.ts";
import type { FieldManagementContext } from "../endpoint.ts";
import { trackUpdate } from "../track-update.ts";

const item: Schema = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string" },
    port: { type: "integer" },
    protocol: { type: "string", default: "TCP" },
    tags: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
    probe: { type: "object", properties: { path: { type: "string" }, seconds: { type: "integer" } } },
  },
};

/** The schema of the kind Widget. */
const schema: Schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        replicas: { type: "integer" },
        paused: { type: "boolean" },
        note: { type: "string", nullable: true },
        size: { "x-kubernetes-int-or-string": true },
        labels: { type: "object", additionalProperties: { type: "string" } },
        selector: { type: "object", "x-kubernetes-map-type": "atomic", additionalProperties: { type: "string" } },
        args: { type: "array", items: { type: "string" } },
        set: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
        numbers: { type: "array", "x-kubernetes-list-type": "set", items: { type: "integer" } },
        items: { type: "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], items: item },
        ports: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["port", "protocol"],
          items: item,
        },
        free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        embedded: { type: "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
        template: { type: "object", properties: { probe: item.properties?.["probe"] ?? {}, image: { type: "string" } } },
      },
    },
    status: {
      type: "object",
      properties: {
        phase: { type: "string" },
        conditions: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["type"],
          items: { type: "object", properties: { type: { type: "string" }, status: { type: "string" } } },
        },
      },
    },
  },
};

/** The version of Widget. */
export const apiVersion = "example.com/v1";

/** The context of a write by `manager`. */
function context(manager: string, options: Partial<FieldManagementContext> = {}): FieldManagementContext {
  return { schema, manager, apiVersion, time: "2026-01-01T00:00:00Z", hasStatus: true, ...options };
}

/** A Widget with this content. */
export function widget(content: JsonObject, metadata: JsonObject = {}): KubernetesObject {
  return { apiVersion, kind: "Widget", metadata: { name: "w", ...metadata }, ...content };
}

/** A stored Widget. */
export type Live = KubernetesObject & { readonly spec?: JsonObject; readonly status?: JsonObject };

/** Applies a configuration as `manager`. */
export function apply(
  live: KubernetesObject | undefined,
  manager: string,
  config: KubernetesObject,
  options: Partial<FieldManagementContext> & { force?: boolean } = {},
): Live {
  const { force = false, ...rest } = options;
  return deepFreeze(applyConfiguration(live, config, { ...context(manager, rest), force })) as Live;
}

/** Tracks an update by `manager`. */
export function track(
  live: KubernetesObject | undefined,
  manager: string,
  next: KubernetesObject,
  options: Partial<FieldManagementContext> = {},
): Live {
  return deepFreeze(trackUpdate(live, structuredClone(next), context(manager, options))) as Live;
}

/** The FieldsV1 that `manager` owns. */
export function owned(object: KubernetesObject, manager: string, operation = "Apply"): unknown {
  return object.metadata.managedFields?.find((entry) => entry.manager === manager && entry.operation === operation)?.fieldsV1;
}

/** The error of an action that must fail. */
export function refusal(action: () => unknown): { code: number; message: string; fields: (string | undefined)[] } {
  try {
    action();
  } catch (error) {
    if (!isStatusError(error)) throw error;
    return { code: error.code, message: error.message, fields: (error.status.details?.causes ?? []).map(({ field }) => field) };
  }
  throw new Error("was not rejected");
}
