export type { Faults, RequestFault } from "./faults.ts";
export {
  type EnvironmentController,
  startTestEnvironment,
  type TestEnvironment,
  type TestEnvironmentOptions,
} from "./test-environment.ts";
