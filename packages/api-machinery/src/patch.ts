/* The patch types of the Kubernetes API: JSON Patch, JSON Merge Patch and strategic merge patch. */
export * from "./patch/create-json-patch.ts";
export { goText } from "./patch/go-text.ts";
export * from "./patch/json-patch.ts";
export * from "./patch/merge-patch.ts";
export * from "./patch/strategic-merge.ts";
