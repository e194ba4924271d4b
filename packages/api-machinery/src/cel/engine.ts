import type * as cel from "@marcbachmann/cel-js";
import type * as evaluator from "@marcbachmann/cel-js/evaluator";
import { createRequire } from "node:module";

/** The parts of the CEL library that are used here. */
export interface CelEngine {
  readonly Environment: typeof cel.Environment;
  readonly Optional: typeof cel.Optional;
  readonly Duration: typeof evaluator.Duration;
  readonly UnsignedInt: typeof evaluator.UnsignedInt;
}

let engine: CelEngine | undefined;

/**
 * Loads the CEL library on first use. It takes as long to load as the rest of this package, and only a server with rules
 * needs it. Synchronous, because validation is synchronous.
 */
export function celEngine(): CelEngine {
  if (engine === undefined) {
    const require = createRequire(import.meta.url);
    const { Environment, Optional } = require("@marcbachmann/cel-js") as typeof cel;
    const { Duration, UnsignedInt } = require("@marcbachmann/cel-js/evaluator") as typeof evaluator;
    engine = { Environment, Optional, Duration, UnsignedInt };
  }
  return engine;
}
