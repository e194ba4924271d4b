import type { Environment } from "@marcbachmann/cel-js";
import type { Schema } from "../schema/schema.ts";
import { authorizerType } from "./libraries/authorizer-library.ts";
import { messageAt } from "./compile-error.ts";
import { declareCelType, reservedNames, type TypeRegistry } from "./object-types.ts";
import { kubernetesEnvironment, withLinearMatches } from "./rule-program.ts";

/** What {@link ExpressionTypeChecker} takes. */
export interface ExpressionTypes {
  /** The schema of `object` and `oldObject`. */
  readonly object: Schema;
  /** The schema of `params`; undefined if its kind is not known. */
  readonly params?: Schema | undefined;
  /** Variables without a type. */
  readonly untyped: readonly string[];
}

/**
 * Checks expressions of admission policies against the types of the objects that they match, as kube-controller-manager does for
 * `status.typeChecking`. The expressions must compile without types.
 */
export class ExpressionTypeChecker {
  readonly #environment: Environment;

  constructor({ object, params, untyped }: ExpressionTypes) {
    const environment = kubernetesEnvironment().clone();
    this.#environment = environment;
    const declaring: TypeRegistry = {
      registerType(name, definition) {
        environment.registerType(name, definition);
        // cel-go lets objects be compared with null.
        environment.registerOperator(`${name} == null`, () => false);
      },
      registerOperator(signature, handler) {
        environment.registerOperator(signature, handler);
      },
    };
    const type = declareCelType(declaring, object)?.name ?? "dyn";
    environment.registerVariable("object", type).registerVariable("oldObject", type);
    if (params !== undefined) environment.registerVariable("params", declareCelType(declaring, params)?.name ?? "dyn");
    for (const name of untyped) environment.registerVariable(name, name === "authorizer" ? authorizerType : "dyn");
  }

  /** Returns what is wrong with an expression, in the words of cel-go; undefined if nothing is. */
  check(expression: string): string | undefined {
    try {
      const { valid, error } = this.#environment.parse(withLinearMatches(expression)).check();
      return valid || error === undefined ? undefined : warningOf(expression, error.message);
    } catch (error) {
      return warningOf(expression, error instanceof Error ? error.message : String(error));
    }
  }
}

/** Types of objects have generated names, which mean nothing to users. */
const generatedName = /\bObject\d+\b/g;

function warningOf(expression: string, message: string): string | undefined {
  const [text = "", line = "", caret = ""] = message.split(/\n+/);
  const field = /^No such key: (\S+)/.exec(text)?.[1];
  // A reserved word is legal as a field, although its type has an escaped name.
  if (field !== undefined && reservedNames.has(field)) return undefined;
  const shown = /^>\s*(\d+) \| /.exec(line);
  const column = caret.indexOf("^") - (shown?.[0].length ?? 0);
  if (shown === null || column < 0) return `ERROR: <input>:1:1: ${describe(text)}`;
  const before = expression.split("\n").slice(0, Number(shown[1]) - 1);
  const start = before.reduce((sum, each) => sum + each.length + 1, 0) + column;
  // cel-go shows the dot of a selection.
  const offset = field !== undefined && expression[start - 1] === "." ? start - 1 : start;
  return messageAt(expression, offset, field === undefined ? describe(text) : `undefined field '${field}'`);
}

function describe(text: string): string {
  const [, left, operator, right] = /^no such overload: (\S+) (\S+) (\S+)$/i.exec(text) ?? [];
  const described =
    operator === undefined ? text : `found no matching overload for '_${operator}_' applied to '(${left}, ${right})'`;
  return described.replaceAll(generatedName, "object");
}
