/* Dashboards, alert rules and state metrics of operators. */
export * from "./monitoring/dashboard.ts";
export * from "./monitoring/operator-monitoring.ts";
