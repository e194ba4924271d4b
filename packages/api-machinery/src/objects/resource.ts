import type { Static, TSchema } from "typebox";
import type { CustomResourceDefinitionObject } from "../kinds/core-objects.ts";
import type { KubernetesObject, ObjectMeta } from "./object.ts";
import type { Schema } from "../schema/schema.ts";

/** Whether names of a kind are unique within a namespace or within the cluster. */
export type Scope = "Namespaced" | "Cluster";

/**
 * Identifies a kind to a client. `T` is the type of its objects and exists at compile time only. The built-in kinds are plain
 * values of this type; custom kinds are created by {@link defineResource}.
 */
export interface ResourceType<T extends KubernetesObject = KubernetesObject> {
  /** `""` for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** The resource's name in URLs: `jobs`. */
  readonly plural: string;
  readonly scope: Scope;
  /** Never set; carries `T`. */
  readonly _type?: T;
}

/** A column of `kubectl get` (apiextensions/v1 CustomResourceColumnDefinition). */
export interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "number" | "boolean" | "date";
  readonly jsonPath: string;
  readonly description?: string;
  readonly format?: string;
  /** 0 (the default) is always shown; a higher one only with `-o wide`. */
  readonly priority?: number;
}

/** The scale subresource of a kind (apiextensions/v1 CustomResourceSubresourceScale). */
export interface ScaleSubresource {
  readonly specReplicasPath: string;
  readonly statusReplicasPath: string;
  readonly labelSelectorPath?: string;
}

/** Options of {@link defineResource}. Schemas are TypeBox values. */
export interface ResourceOptions<Spec extends TSchema, Stat extends TSchema> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  /** Default: the lower-case kind. */
  readonly singular?: string;
  readonly shortNames?: readonly string[];
  /** Groups, such as `all`, that `kubectl get` lists the kind under. */
  readonly categories?: readonly string[];
  /** Default: `Namespaced`. */
  readonly scope?: Scope;
  /** Describes the kind; shown by `kubectl explain`. */
  readonly description: string;
  readonly spec: Spec;
  /** Enables the status subresource. */
  readonly status?: Stat;
  readonly scale?: ScaleSubresource;
  readonly columns?: readonly PrinterColumn[];
  /** CEL rules for the whole object. */
  readonly validations?: Schema["x-kubernetes-validations"];
  /** Further versions that are served but not stored. They share the schema (conversion strategy None). */
  readonly servedVersions?: readonly string[];
}

/** The static type of a kind with these types of spec and status. */
export interface ObjectOf<Spec, Stat> extends KubernetesObject {
  metadata: ObjectMeta;
  spec: Spec;
  status?: Stat;
}

/** A custom kind: its identity, its static type, its schema and its CustomResourceDefinition. */
export interface ResourceDefinition<T extends KubernetesObject = KubernetesObject> extends ResourceType<T> {
  readonly apiVersion: string;
  readonly singular: string;
  /** The structural schema of the whole object. */
  readonly schema: Schema;
  /** The CustomResourceDefinition (apiextensions.k8s.io/v1) of this kind. */
  readonly crd: CustomResourceDefinitionObject & { readonly metadata: { readonly name: string } };
}

/** The object type of a resource: `type Job = ObjectType<typeof Job>`. */
export type ObjectType<R> = R extends ResourceType<infer T> ? T : never;

/** The static type that {@link defineResource} derives from these schemas. */
export type DefinedResource<Spec extends TSchema, Stat extends TSchema> = ResourceDefinition<
  ObjectOf<Static<Spec>, Static<Stat>>
>;

/** Formats the `apiVersion` of a group and version: `v1`, `apps/v1`. */
export function apiVersionOf(type: { readonly group: string; readonly version: string }): string {
  return type.group === "" ? type.version : `${type.group}/${type.version}`;
}

/** Splits an `apiVersion` into group and version. */
export function parseApiVersion(apiVersion: string): { group: string; version: string } {
  const slash = apiVersion.indexOf("/");
  return slash < 0
    ? { group: "", version: apiVersion }
    : { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1) };
}
