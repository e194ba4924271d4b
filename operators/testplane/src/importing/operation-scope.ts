import type { ProblemList } from "./problem-list.ts";
import type { TestSource } from "./source-files.ts";
import type { StepList } from "./step-list.ts";

type Json = Readonly<Record<string, unknown>>;

/** Inputs of the conversion of an operation. */
export interface OperationScope {
  readonly source: TestSource;
  readonly list: ProblemList;
  readonly steps: Pick<StepList, "add">;
  readonly variables: Map<string, string>;
  /** Timeouts of the test by operation. */
  readonly timeouts: Json;
  /** The `cluster` of the test or its step. Undefined: the cluster of the test. */
  readonly cluster: unknown;
  /** Other clusters that the converted steps use. */
  readonly clusters: Set<string>;
  /** Names of the outputs of the step so far. */
  readonly outputs: Set<string>;
}
