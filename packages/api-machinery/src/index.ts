export * from "./clock.ts";
export * from "./json.ts";
export * from "./object.ts";
export * from "./resource.ts";
export * from "./schema/schema.ts";
export * from "./status.ts";
export * from "./transport.ts";
