export * from "./driver.ts";
export type { Clock, Timer } from "./clock.ts";
export { createProcessDriver } from "./process-driver.ts";
export type { ProcessDriverOptions } from "./process-driver.ts";
export { readLogTail } from "./log-tail.ts";
export { programIdPattern } from "./program-spec.ts";
export { defaultPath } from "./program-spec.ts";
export { resolveLocalUser } from "./user.ts";
export type { ResolvedUser, UserIds } from "./user.ts";
