export type * from "./deployment.ts";
export type { FlagDefinition, FlagValues } from "./flags.ts";
export type * from "./operator.ts";
export { OperatorServices, ServiceKey } from "./operator-services.ts";
export { formatResult, outputFlag } from "./output-flag.ts";
export { renderTable } from "./render-table.ts";
export * from "./rules-of.ts";
export * from "./runtime-rules.ts";
export * from "./start-operator.ts";
