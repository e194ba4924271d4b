import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { type CelExpression, compileExpression } from "@keelson/api-machinery/server";
import { variablesOf } from "../../registry/kinds/extension/admission-policies.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { celErrorText } from "../matching/cel-error-text.ts";
import { lazyVariables, type NamedProgram } from "./policy-variables.ts";

/** A failed validation. */
export interface PolicyFailure {
  readonly message: string;
  /** A status reason, or empty for the default. */
  readonly reason: string;
}

type Values = Readonly<Record<string, unknown>>;

interface Validation {
  readonly expression: string;
  readonly program: CelExpression;
  readonly message: string;
  readonly messageProgram: CelExpression | undefined;
  readonly reason: string;
}

/** The maximum length of a computed message. */
const maxMessageBytes = 5 * 1024;

/** The compiled expressions of a ValidatingAdmissionPolicy. */
export class PolicyProgram {
  readonly #conditions: readonly NamedProgram[];
  readonly #variables: readonly NamedProgram[];
  readonly #validations: readonly Validation[];
  readonly #ignoresErrors: boolean;

  /** Throws a `TypeError` if an expression does not compile, which validation of the policy excludes. */
  constructor(policy: DeepReadonly<KubernetesObject>) {
    const spec = valueAt(policy, "spec");
    const names = variablesOf(spec);
    const compile = (expression: string, wanted: "bool" | "string" | "any"): CelExpression => {
      const compiled = compileExpression(expression, names, wanted);
      if (typeof compiled === "string") throw new TypeError(`${expression}: ${compiled}`);
      return compiled;
    };
    this.#ignoresErrors = textAt(spec, "failurePolicy") === "Ignore";
    this.#conditions = listAt(spec, "matchConditions").map((condition) => ({
      name: textAt(condition, "name"),
      program: compile(textAt(condition, "expression"), "bool"),
    }));
    this.#variables = listAt(spec, "variables").map((variable) => ({
      name: textAt(variable, "name"),
      program: compile(textAt(variable, "expression"), "any"),
    }));
    this.#validations = listAt(spec, "validations").map((validation) => {
      const messageExpression = textAt(validation, "messageExpression");
      return {
        expression: textAt(validation, "expression"),
        program: compile(textAt(validation, "expression"), "bool"),
        message: textAt(validation, "message"),
        messageProgram: messageExpression === "" ? undefined : compile(messageExpression, "string"),
        reason: textAt(validation, "reason"),
      };
    });
  }

  /** Evaluates the policy on the variables of a request and returns what failed; nothing if its conditions do not match. */
  evaluate(given: Values): readonly PolicyFailure[] {
    const values = { ...given, variables: lazyVariables(this.#variables, given) };
    for (const { name, program } of this.#conditions) {
      try {
        if (program.evaluate(values) !== true) return [];
      } catch (error) {
        if (this.#ignoresErrors) return [];
        return [{ message: `matchCondition ${JSON.stringify(name)} resulted in error: ${celErrorText(error)}`, reason: "" }];
      }
    }
    return this.#validations.flatMap((validation) => this.#validate(validation, values));
  }

  #validate(validation: Validation, values: Values): readonly PolicyFailure[] {
    const { expression, program, reason } = validation;
    try {
      if (program.evaluate(values) === true) return [];
    } catch (error) {
      if (this.#ignoresErrors) return [];
      return [{ message: `expression '${expression.trim()}' resulted in error: ${celErrorText(error)}`, reason }];
    }
    return [{ message: failureMessage(validation, values), reason }];
  }
}

function failureMessage({ expression, message, messageProgram }: Validation, values: Values): string {
  if (messageProgram !== undefined) {
    try {
      const text = String(messageProgram.evaluate(values)).trim();
      if (text !== "" && !/[\r\n]/.test(text) && Buffer.byteLength(text) <= maxMessageBytes) return text;
    } catch {
      // The static message is the fallback.
    }
  }
  return message === "" ? `failed expression: ${expression.trim()}` : message;
}
