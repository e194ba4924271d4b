import type * as cel from "@marcbachmann/cel-js";
import type * as evaluator from "@marcbachmann/cel-js/evaluator";
import { createRequire } from "node:module";

/** What is used of the library that evaluates CEL. */
export interface CelEngine {
  readonly Environment: typeof cel.Environment;
  readonly Optional: typeof cel.Optional;
  readonly Duration: typeof evaluator.Duration;
}

let engine: CelEngine | undefined;

/**
 * The library that evaluates CEL, loaded when it is first asked for: it takes as long to load as the rest of this package, and
 * only a server with rules needs it. At once rather than by `import()`, as validation waits for nothing.
 */
export function celEngine(): CelEngine {
  if (engine === undefined) {
    const require = createRequire(import.meta.url);
    const { Environment, Optional } = require("@marcbachmann/cel-js") as typeof cel;
    const { Duration } = require("@marcbachmann/cel-js/evaluator") as typeof evaluator;
    engine = { Environment, Optional, Duration };
  }
  return engine;
}
