/* Label selectors, field selectors and JSONPath. */
export * from "./selectors/field-selector.ts";
export * from "./selectors/json-path.ts";
export * from "./selectors/label-selector.ts";
