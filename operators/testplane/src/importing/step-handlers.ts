import { ConversionError } from "./problem-list.ts";
import { StepList, type ConvertedStep } from "./step-list.ts";

/** A list of converted operations that become catch, finally or cleanup steps, which have neither outputs nor expected errors. */
export class LateStepList extends StepList {
  override add(name: string, step: ConvertedStep): void {
    if (step["outputs"] !== undefined) throw new ConversionError("outputs of catch, finally and cleanup are not converted");
    if (step["expectError"] !== undefined)
      throw new ConversionError("expected errors of catch, finally and cleanup are not converted");
    super.add(name, step);
  }
}

/** The converted operations of one step of chainsaw. */
export interface StepBlocks {
  readonly main: readonly ConvertedStep[];
  readonly catch: readonly ConvertedStep[];
  readonly finally: readonly ConvertedStep[];
  readonly cleanup: readonly ConvertedStep[];
}

/**
 * The main steps of one step of chainsaw, whose operations are their own steps. The first one that fails runs the catch and the finally
 * steps; if none fails, the last one runs the finally steps. The cleanup runs if the first one has started.
 */
export function withHandlers({ main, ...late }: StepBlocks): readonly ConvertedStep[] {
  const last = main.length - 1;
  return main.map((step, index) => ({
    ...step,
    ...listOf("catch", index === last ? late.catch : [...late.catch, ...late.finally]),
    ...listOf("finally", index === last ? late.finally : []),
    ...listOf("cleanup", index === 0 ? late.cleanup : []),
  }));
}

/** A list of steps with unique names, or nothing if it is empty. */
function listOf(field: "catch" | "finally" | "cleanup", steps: readonly ConvertedStep[]): ConvertedStep {
  const unique = new StepList();
  for (const { name, ...step } of steps) unique.add(String(name), step);
  return unique.steps.length === 0 ? {} : { [field]: unique.steps };
}
