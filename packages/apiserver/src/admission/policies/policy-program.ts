import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { type CelExpression, compileExpression, type WantedType } from "@keelson/api-machinery/server";
import { variablesOf } from "../../registry/kinds/extension/admission-policies.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { celErrorText } from "../matching/cel-error-text.ts";
import { lazyVariables, type NamedProgram } from "./policy-variables.ts";

/** A failed validation. */
export interface PolicyFailure {
  /** Position of the validation in the policy; 0 for a failed match condition. */
  readonly index: number;
  readonly message: string;
  /** A status reason, or empty for the default. */
  readonly reason: string;
}

/** An annotation of the audit event; without its policy's name. */
export interface PolicyAnnotation {
  readonly key: string;
  readonly value: string;
}

/** The result of a policy. */
export interface PolicyResult {
  readonly failures: readonly PolicyFailure[];
  /** Why audit annotations could not be evaluated; these deny the request whatever the binding's actions are. */
  readonly annotationErrors: readonly string[];
  readonly annotations: readonly PolicyAnnotation[];
}

const nothing: PolicyResult = { failures: [], annotationErrors: [], annotations: [] };

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
  readonly #annotations: readonly { readonly key: string; readonly expression: string; readonly program: CelExpression }[];
  readonly #ignoresErrors: boolean;

  /** Throws a `TypeError` if an expression does not compile, which validation of the policy excludes. */
  constructor(policy: DeepReadonly<KubernetesObject>) {
    const spec = valueAt(policy, "spec");
    const names = variablesOf(spec);
    const compile = (expression: string, wanted: WantedType): CelExpression => {
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
    this.#annotations = listAt(spec, "auditAnnotations").map((annotation) => {
      const expression = textAt(annotation, "valueExpression");
      return { key: textAt(annotation, "key"), expression, program: compile(expression, "any") };
    });
  }

  /** Evaluates the policy on the variables of a request. The result is empty if its conditions do not match. */
  evaluate(given: Values): PolicyResult {
    const values = { ...given, variables: lazyVariables(this.#variables, given) };
    for (const { name, program } of this.#conditions) {
      try {
        if (program.evaluate(values) !== true) return nothing;
      } catch (error) {
        if (this.#ignoresErrors) return nothing;
        const message = `matchCondition ${JSON.stringify(name)} resulted in error: ${celErrorText(error)}`;
        return { ...nothing, failures: [{ index: 0, message, reason: "" }] };
      }
    }
    const failures = this.#validations.flatMap((validation, index) => this.#validate(validation, index, values));
    return { failures, ...this.#annotate(values) };
  }

  #annotate(values: Values): Pick<PolicyResult, "annotations" | "annotationErrors"> {
    const annotations: PolicyAnnotation[] = [];
    const annotationErrors: string[] = [];
    for (const { key, expression, program } of this.#annotations) {
      try {
        const value = program.evaluate(values);
        const text = typeof value === "string" ? value.trim() : "";
        if (text !== "") annotations.push({ key, value: truncatedText(text) });
        else if (typeof value !== "string" && value !== null) annotationErrors.push(unsupportedType(expression));
      } catch (error) {
        if (!this.#ignoresErrors) annotationErrors.push(`expression '${expression}' resulted in error: ${celErrorText(error)}`);
      }
    }
    return { annotations, annotationErrors };
  }

  #validate(validation: Validation, index: number, values: Values): readonly PolicyFailure[] {
    const { expression, program, reason } = validation;
    try {
      if (program.evaluate(values) === true) return [];
    } catch (error) {
      if (this.#ignoresErrors) return [];
      return [{ index, message: `expression '${expression.trim()}' resulted in error: ${celErrorText(error)}`, reason }];
    }
    return [{ index, message: failureMessage(validation, values), reason }];
  }
}

/** The maximum size of an annotation's value. */
const maxAnnotationBytes = 10 * 1024;

function truncatedText(text: string): string {
  const bytes = Buffer.from(text);
  return bytes.length <= maxAnnotationBytes ? text : bytes.subarray(0, maxAnnotationBytes).toString();
}

function unsupportedType(expression: string): string {
  return `valueExpression '${expression}' resulted in unsupported return type. Return type must be either string or null.`;
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
