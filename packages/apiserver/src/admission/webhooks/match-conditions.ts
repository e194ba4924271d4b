import { type CelExpression, compileExpression } from "@keelson/api-machinery/server";
import { textAt } from "../../registry/object-fields.ts";
import { celErrorText } from "../matching/cel-error-text.ts";

/** The variables of the match conditions of webhooks. */
export const matchConditionVariables: readonly string[] = ["object", "oldObject", "request", "namespaceObject", "authorizer"];

/** Whether match conditions hold. `failed`: one cannot be evaluated, and the webhook's failure policy is `Fail`. */
export type MatchResult =
  | { readonly kind: "matched" }
  | { readonly kind: "not-matched" }
  | { readonly kind: "failed"; readonly message: string };

interface Condition {
  readonly expression: string;
  readonly program: CelExpression | undefined;
}

/** The match conditions of a webhook or policy. Compiled on first use. */
export class MatchConditions {
  readonly #specs: readonly unknown[];
  readonly #ignoresFailures: boolean;
  readonly #variables: readonly string[];
  #compiled: readonly Condition[] | undefined;

  constructor(specs: readonly unknown[], ignoresFailures: boolean, variables: readonly string[] = matchConditionVariables) {
    this.#specs = specs;
    this.#ignoresFailures = ignoresFailures;
    this.#variables = variables;
  }

  get isEmpty(): boolean {
    return this.#specs.length === 0;
  }

  /** Evaluates all conditions. One that is false outweighs others that fail. */
  evaluate(variables: Readonly<Record<string, unknown>>): MatchResult {
    const faults: string[] = [];
    for (const { expression, program } of this.#conditions()) {
      try {
        if (program === undefined) throw new TypeError("the expression does not compile");
        if (program.evaluate(variables) === false) return { kind: "not-matched" };
      } catch (error) {
        faults.push(`expression '${expression}' resulted in error: ${celErrorText(error)}`);
      }
    }
    if (faults.length === 0) return { kind: "matched" };
    if (this.#ignoresFailures) return { kind: "not-matched" };
    return { kind: "failed", message: faults.length === 1 ? (faults[0] ?? "") : `[${faults.join(", ")}]` };
  }

  #conditions(): readonly Condition[] {
    this.#compiled ??= this.#specs.map((spec) => {
      const expression = textAt(spec, "expression");
      const program = compileExpression(expression, this.#variables, "bool");
      return { expression, program: typeof program === "string" ? undefined : program };
    });
    return this.#compiled;
  }
}
