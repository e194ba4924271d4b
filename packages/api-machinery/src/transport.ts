/* The protocol between a client and an API server: requests, watches, lists and resource versions. */
export type { KubernetesList, ListMeta, WatchEvent } from "./objects/object.ts";
export * from "./objects/resource-version.ts";
export type * from "./protocol/transport.ts";
