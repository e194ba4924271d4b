/* The work queue of controllers, for code that reconciles without a manager. */
export type { BackoffOptions } from "./queue/item-backoff.ts";
export * from "./queue/token-bucket.ts";
export * from "./queue/work-queue.ts";
