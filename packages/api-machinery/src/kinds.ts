/* The built-in kinds: their types, and the resources that name them to a client. */
export type { BuiltInCondition } from "./objects/object.ts";
export * from "./kinds/access-reviews.ts";
export type * from "./kinds/core-objects.ts";
export type * from "./kinds/network-objects.ts";
export { type PodReferences, podReferences } from "./kinds/pod-references.ts";
export type * from "./kinds/pod-spec.ts";
export * from "./kinds/resources.ts";
export type * from "./kinds/scheduling.ts";
export type * from "./kinds/volume-objects.ts";
export type * from "./kinds/volumes.ts";
export type * from "./kinds/workload-objects.ts";
