import type { Static, TSchema } from "typebox";
import type { CustomResourceDefinitionObject } from "../kinds/core-objects.ts";
import type { KubernetesObject, ObjectMeta } from "./object.ts";
import type { Schema } from "../schema/schema.ts";

/** How many objects of a kind share a name: one a namespace, or one in all. */
export type Scope = "Namespaced" | "Cluster";

/**
 * Names a kind to a client: enough to address it. `T` is the object's type and exists for the compiler only. Built-in
 * kinds are plain values of this; a kind of one's own is made by {@link defineResource}.
 */
export interface ResourceType<T extends KubernetesObject = KubernetesObject> {
  /** `""` for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** The resource's name in URLs: `jobs`. */
  readonly plural: string;
  readonly scope: Scope;
  /** Never set: carries `T`. */
  readonly _type?: T;
}

/** A column of `kubectl get` (apiextensions/v1 CustomResourceColumnDefinition). */
export interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "number" | "boolean" | "date";
  readonly jsonPath: string;
  readonly description?: string;
  readonly format?: string;
  /** 0 (the default) is always shown; above 0 only with `-o wide`. */
  readonly priority?: number;
}

/** The scale subresource of a kind (apiextensions/v1 CustomResourceSubresourceScale). */
export interface ScaleSubresource {
  readonly specReplicasPath: string;
  readonly statusReplicasPath: string;
  readonly labelSelectorPath?: string;
}

/** What {@link defineResource} takes. Schemas are TypeBox values. */
export interface ResourceOptions<Spec extends TSchema, Stat extends TSchema> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  /** Default: the kind in lower case. */
  readonly singular?: string;
  readonly shortNames?: readonly string[];
  /** Groups such as `all` under which `kubectl get` lists the kind. */
  readonly categories?: readonly string[];
  /** Default: `Namespaced`. */
  readonly scope?: Scope;
  /** What the kind is: the text of `kubectl explain`. */
  readonly description: string;
  readonly spec: Spec;
  /** With a status, the kind has the status subresource. */
  readonly status?: Stat;
  readonly scale?: ScaleSubresource;
  readonly columns?: readonly PrinterColumn[];
  /** CEL rules on the whole object. */
  readonly validations?: Schema["x-kubernetes-validations"];
  /** Further versions that are served and not stored; they share this one's schema (conversion None). */
  readonly servedVersions?: readonly string[];
}

/** The static type of a kind with this spec and status. */
export interface ObjectOf<Spec, Stat> extends KubernetesObject {
  metadata: ObjectMeta;
  spec: Spec;
  status?: Stat;
}

/** A kind declared once: its address, its static type, and the CustomResourceDefinition made of it. */
export interface ResourceDefinition<T extends KubernetesObject = KubernetesObject> extends ResourceType<T> {
  readonly apiVersion: string;
  readonly singular: string;
  /** The whole object's structural schema. */
  readonly schema: Schema;
  /** The CustomResourceDefinition (apiextensions.k8s.io/v1) of this kind. */
  readonly crd: CustomResourceDefinitionObject & { readonly metadata: { readonly name: string } };
}

/** The object type of a resource: `type Job = ObjectType<typeof Job>`. */
export type ObjectType<R> = R extends ResourceType<infer T> ? T : never;

/** The static type that {@link defineResource} gives for these schemas. */
export type DefinedResource<Spec extends TSchema, Stat extends TSchema> = ResourceDefinition<
  ObjectOf<Static<Spec>, Static<Stat>>
>;

/** `apiVersion` of a group and version: `v1`, `apps/v1`. */
export function apiVersionOf(type: { readonly group: string; readonly version: string }): string {
  return type.group === "" ? type.version : `${type.group}/${type.version}`;
}

/** Group and version of an `apiVersion`. */
export function parseApiVersion(apiVersion: string): { group: string; version: string } {
  const slash = apiVersion.indexOf("/");
  return slash < 0
    ? { group: "", version: apiVersion }
    : { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1) };
}
