/* A single informer, for code that follows a kind without a manager. */
export { Informer, type InformerOptions } from "./informer/informer.ts";
export type { StoreEffect } from "./informer/informer-state.ts";
