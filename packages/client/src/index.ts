export * from "./client.ts";
export * from "./create-client.ts";
export * from "./credentials.ts";
export * from "./http-transport.ts";
export * from "./transport-error.ts";
