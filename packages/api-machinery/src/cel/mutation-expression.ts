import type { Environment } from "@marcbachmann/cel-js";
import type { JsonObject } from "../objects/json.ts";
import { CelError } from "./cel-error.ts";
import { constructedType, ConstructedObject, toJson, typeNameFaults } from "./constructed-objects.ts";
import { type CelExpression, compileMessage, environmentWith } from "./expression.ts";
import { rewriteObjectLiterals } from "./object-literals.ts";
import { celEquals } from "./object-types.ts";
import { withLinearMatches } from "./rule-program.ts";

/** A JSON Patch (RFC 6902). */
export type JsonPatchOperations = readonly JsonObject[];

/**
 * Compiles the expressions of a MutatingAdmissionPolicy (KEP-3962), which can construct values of the types `Object`, `Object.spec` ... and
 * `JSONPatch`, and call `jsonpatch.escapeKey`. The expressions of one policy share a compiler, so that one can use values of another.
 *
 * @param variables as for `compileExpression`.
 */
export class MutationCompiler {
  readonly #environment: Environment;
  /** Functions that construct a type, by type name. */
  readonly #functions = new Map<string, string>();

  constructor(variables: readonly string[], expressions: readonly string[]) {
    this.#environment = environmentWith(variables).clone();
    registerPatchLibrary(this.#environment);
    this.#register("JSONPatch", { op: "string", path: "string", from: "string", value: "dyn" });
    this.#register("Object");
    for (const expression of expressions) this.#registerTypesOf(expression);
  }

  /** Compiles the expression of a variable, or returns why it does not compile. */
  compileVariable(expression: string): CelExpression | string {
    const compiled = this.#compile(expression);
    return typeof compiled === "string" ? compiled : { evaluate: compiled.evaluate };
  }

  /** Compiles an expression that evaluates to an apply configuration, or returns why it does not compile. */
  compileConfiguration(expression: string): ((values: Values) => JsonObject) | string {
    const compiled = this.#compile(expression);
    if (typeof compiled === "string") return compiled;
    if (compiled.type !== "Object" && compiled.type !== "dyn")
      return `must evaluate to Object but got ${celGoType(compiled.type)}`;
    return (values) => configurationOf(compiled.evaluate(values));
  }

  /** Compiles an expression that evaluates to a JSON Patch, or returns why it does not compile. */
  compilePatch(expression: string): ((values: Values) => JsonPatchOperations) | string {
    const compiled = this.#compile(expression);
    if (typeof compiled === "string") return compiled;
    // `list` is a list of any type; a list without items has a parameter as its type.
    if (!/^(?:dyn|list|list<(?:JSONPatch|dyn|[A-Z])>)$/.test(compiled.type)) {
      return `must evaluate to list(JSONPatch) but got ${celGoType(compiled.type)}`;
    }
    return (values) => operationsOf(compiled.evaluate(values));
  }

  #compile(expression: string): (CelExpression & { readonly type: string }) | string {
    try {
      const rewritten = rewriteObjectLiterals(expression, (typeName) => this.#functions.get(typeName) ?? typeName);
      const parsed = this.#environment.parse(withLinearMatches(rewritten));
      const { valid, type = "dyn", error } = parsed.check();
      if (!valid) return `compilation failed: ${compileMessage(expression, error?.message ?? "it has no type")}`;
      return { type, evaluate: (values) => parsed({ ...values }) };
    } catch (error) {
      return `compilation failed: ${compileMessage(expression, error instanceof Error ? error.message : String(error))}`;
    }
  }

  #registerTypesOf(expression: string): void {
    try {
      rewriteObjectLiterals(expression, (typeName) => {
        if (!this.#functions.has(typeName)) this.#register(typeName);
        return typeName;
      });
    } catch {
      // Compiling the expression reports the error.
    }
  }

  #register(typeName: string, fields?: Readonly<Record<string, string>>): void {
    const { type, create } = constructedType(typeName);
    const name = `construct${this.#functions.size}`;
    this.#functions.set(typeName, name);
    this.#environment.registerType(typeName, fields === undefined ? { ctor: type } : { ctor: type, fields });
    this.#environment.registerFunction(`${name}(map): ${typeName}`, create);
    this.#environment.registerOperator(`${typeName} == ${typeName}`, celEquals);
  }
}

type Values = Readonly<Record<string, unknown>>;

class PatchFunctions {}

function registerPatchLibrary(environment: Environment): void {
  environment
    .registerType("PatchFunctions", PatchFunctions)
    .registerConstant("jsonpatch", "PatchFunctions", new PatchFunctions())
    .registerFunction("PatchFunctions.escapeKey(string): string", (_: unknown, key: string) =>
      key.replaceAll("~", "~0").replaceAll("/", "~1"),
    );
}

function configurationOf(value: unknown): JsonObject {
  if (!(value instanceof ConstructedObject)) {
    throw new CelError("InvalidArgument", "unsupported return type from ApplyConfiguration expression");
  }
  checkTypeNames(value, "Object");
  return toJson(value) as JsonObject;
}

function operationsOf(value: unknown): JsonPatchOperations {
  if (!Array.isArray(value)) {
    throw new CelError("InvalidArgument", "type mismatch: JSONPatchType.expression should evaluate to array");
  }
  return value.map((item: unknown) => {
    if (!(item instanceof ConstructedObject) || item.typeName !== "JSONPatch") {
      throw new CelError("InvalidArgument", "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch");
    }
    const patched = item.get("value");
    if (patched instanceof ConstructedObject) checkTypeNames(patched, patched.typeName);
    return toJson(item) as JsonObject;
  });
}

function checkTypeNames(value: ConstructedObject, path: string): void {
  const faults = typeNameFaults(value, path);
  if (faults.length > 0) throw new CelError("InvalidArgument", `type mismatch: ${faults.join("\n")}`);
}

/** `list<string>` is `list(string)` in the messages of cel-go. */
function celGoType(type: string): string {
  if (type === "list") return "list(dyn)";
  if (type === "map") return "map(dyn, dyn)";
  return type.replaceAll("<", "(").replaceAll(">", ")");
}
