/**
 * Scenarios that fail, by `category/name`, with the reason. A scenario that is not listed must pass, and a listed one must fail: remove
 * the line with the fix.
 */
export const expectedFailures: ReadonlyMap<string, string> = new Map([
  ["aggregateddiscovery/openapi-v3-index", "descriptions of the fields of built-in kinds are not included"],
]);
