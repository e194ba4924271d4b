import { type DeepReadonly, draft, isStatusError, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { jsonPatch } from "@keelson/api-machinery/patch";
import type { Schema } from "@keelson/api-machinery/schema";
import { type JsonPatchOperations, mergeConfiguration } from "@keelson/api-machinery/server";
import { mutationCompilerOf } from "../../registry/kinds/extension/mutating-policies.ts";
import { variablesOf } from "../../registry/kinds/extension/admission-policies.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { celErrorText } from "../matching/cel-error-text.ts";
import { MatchConditions } from "../webhooks/match-conditions.ts";
import { lazyVariables, type NamedProgram } from "./policy-variables.ts";

type Values = Readonly<Record<string, unknown>>;
type Live = DeepReadonly<KubernetesObject>;

/** A mutation that cannot be applied. The message is kube-apiserver's. */
export class MutationError extends Error {
  readonly code = "MutationFailed";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "MutationError";
  }
}

/** One compiled mutation of a policy. */
export interface MutationStep {
  /**
   * Returns the changed object.
   *
   * **Errors**: a {@link MutationError} if the expression fails or its result does not fit the object.
   */
  apply(live: Live, values: Values, schema: Schema): KubernetesObject;
}

/** The compiled expressions of a MutatingAdmissionPolicy. */
export class MutationProgram {
  readonly conditions: MatchConditions;
  readonly steps: readonly MutationStep[];
  readonly ignoresFailures: boolean;
  readonly isReinvocable: boolean;
  readonly #variables: readonly NamedProgram[];

  /** Throws a `TypeError` if an expression does not compile, which validation of the policy excludes. */
  constructor(policy: Live) {
    const spec = valueAt(policy, "spec");
    const compiler = mutationCompilerOf(spec);
    const conditionVariables = variablesOf(spec).filter((name) => name !== "variables");
    // Failures are reported in any case; the failure policy decides about the request.
    this.conditions = new MatchConditions(listAt(spec, "matchConditions"), false, conditionVariables);
    this.ignoresFailures = textAt(spec, "failurePolicy") === "Ignore";
    this.isReinvocable = textAt(spec, "reinvocationPolicy") === "IfNeeded";
    this.#variables = listAt(spec, "variables").map((variable) => ({
      name: textAt(variable, "name"),
      program: compiled(compiler.compileVariable(textAt(variable, "expression").trim())),
    }));
    this.steps = listAt(spec, "mutations").map((mutation) => {
      if (textAt(mutation, "patchType") === "JSONPatch") {
        const expression = textAt(mutation, "jsonPatch", "expression").trim();
        return jsonPatchStep(expression, compiled(compiler.compilePatch(expression)));
      }
      const expression = textAt(mutation, "applyConfiguration", "expression").trim();
      return configurationStep(expression, compiled(compiler.compileConfiguration(expression)));
    });
  }

  /** Adds the policy's variables to those of a request. */
  withVariables(values: Values): Values {
    return { ...values, variables: lazyVariables(this.#variables, values) };
  }
}

function compiled<T>(result: T | string): T {
  if (typeof result === "string") throw new TypeError(result);
  return result;
}

function evaluate<T>(expression: string, program: (values: Values) => T, values: Values): T {
  try {
    return program(values);
  } catch (error) {
    const text = celErrorText(error);
    // kube-apiserver checks the result after the evaluation, without naming the expression.
    const message = text.startsWith("type mismatch: ") ? text : `expression '${expression}' resulted in error: ${text}`;
    throw new MutationError(message, { cause: error });
  }
}

function configurationStep(expression: string, program: (values: Values) => JsonObject): MutationStep {
  return {
    apply(live, values, schema) {
      const fields = evaluate(expression, program, values);
      const { apiVersion, kind } = live;
      const config = { ...fields, apiVersion, kind } as unknown as KubernetesObject;
      const result = mergeConfiguration(live, config, schema);
      if (result.kind === "rejected") throw new MutationError(`error applying patch: ${result.message}`);
      return result.object;
    },
  };
}

const failedTest = /: test failed$/;
const patchRefusal = /^the server rejected our request due to an error in our request: /;

function jsonPatchStep(expression: string, program: (values: Values) => JsonPatchOperations): MutationStep {
  return {
    apply(live, values) {
      const operations = evaluate(expression, program, values);
      try {
        return jsonPatch(draft(live), operations) as KubernetesObject;
      } catch (error) {
        if (!isStatusError(error)) throw error;
        // A failed `test` operation means that the patch does not apply to this object.
        if (failedTest.test(error.message)) return draft(live);
        throw new MutationError(`JSONPath: ${error.message.replace(patchRefusal, "")}`, { cause: error });
      }
    },
  };
}
