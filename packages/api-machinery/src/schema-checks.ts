/* Checks of values against structural schemas, as an API server makes them, without CEL rules. */
export { prune, type PruneResult } from "./schema/prune.ts";
export { validate, type ValidateOptions } from "./schema/validate.ts";
