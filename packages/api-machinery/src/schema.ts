/* Structural schemas: their type, their conversion from TypeBox, and the schemas of Kubernetes' common types. */
export type { PrinterColumn, ScaleSubresource } from "./objects/resource.ts";
export { applyDefaults } from "./schema/default.ts";
export * from "./schema/from-typebox.ts";
export * from "./schema/kubernetes-schemas.ts";
export * from "./schema/object-meta.ts";
export type * from "./schema/schema.ts";
