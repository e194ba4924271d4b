export { PostgresEngine } from "./postgres-engine.ts";
export { postgresAgent, postgresPlugin } from "./postgres-plugin.ts";
