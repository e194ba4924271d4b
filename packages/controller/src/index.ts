export * from "./logger.ts";
export * from "./manager.ts";
export * from "./operator.ts";
export * from "./reconcile.ts";
