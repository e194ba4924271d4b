export type { Faults, RequestFault } from "./faults.ts";
export { startTestEnvironment, type TestEnvironment, type TestEnvironmentOptions } from "./test-environment.ts";
