import type { Environment } from "@marcbachmann/cel-js";
import type { Schema } from "../schema/schema.ts";
import { authorizerType } from "./libraries/authorizer-library.ts";
import { compileErrorText } from "./compile-error.ts";
import { kubernetesEnvironment, withLinearMatches } from "./rule-program.ts";

const text: Schema = { type: "string" };
const texts: Schema = { type: "array", items: text };
const textMap: Schema = { type: "object", additionalProperties: text };
const time: Schema = { type: "string", format: "date-time" };
const struct = (properties: Readonly<Record<string, Schema>>): Schema => ({ type: "object", properties });
const kind = struct({ group: text, version: text, kind: text });
const resource = struct({ group: text, version: text, resource: text });

/** The fields of `request` that expressions may use (admission/v1 AdmissionRequest). */
const request = struct({
  kind,
  resource,
  subResource: text,
  requestKind: kind,
  requestResource: resource,
  requestSubResource: text,
  name: text,
  namespace: text,
  operation: text,
  userInfo: struct({
    username: text,
    uid: text,
    groups: texts,
    extra: { type: "object", additionalProperties: texts },
  }),
  dryRun: { type: "boolean" },
  options: { "x-kubernetes-int-or-string": true },
});

/** The fields of `namespaceObject` that expressions may use. */
const namespace = struct({
  metadata: struct({
    name: text,
    generateName: text,
    namespace: text,
    labels: textMap,
    annotations: textMap,
    UID: text,
    creationTimestamp: time,
    deletionGracePeriodSeconds: { type: "integer" },
    deletionTimestamp: time,
    generation: { type: "integer" },
    resourceVersion: text,
    finalizers: texts,
  }),
  spec: struct({ finalizers: texts }),
  status: struct({ phase: text }),
});

/** Each declaration of a variable copies the environment. */
const maxTypedVariables = 50;

/**
 * The types of what expressions of admission policies use: `request`, `namespaceObject`, and the variables of the policy, which are typed by
 * their own expressions. Objects have no type.
 */
export class PolicyTypes {
  #environment: Environment;
  readonly #base: Environment;
  readonly #variables: Record<string, string> = {};
  #count = 0;

  /** `names` are the variables; those of the policy follow by {@link declare}. */
  constructor(names: readonly string[]) {
    const base = kubernetesEnvironment().clone();
    for (const name of names) if (name !== "variables") base.registerVariable(name, typeOf(base, name));
    this.#base = base;
    this.#environment = base;
  }

  /** Declares a variable of the policy. An expression that does not compile has no type. */
  declare(name: string, expression: string): void {
    this.#count += 1;
    if (this.#count > maxTypedVariables) {
      this.#environment = this.#base.clone().registerVariable("variables", "dyn");
      return;
    }
    this.#variables[name] = this.#check(expression).type ?? "dyn";
    const ctor = class extends Map<string, unknown> {};
    this.#environment = this.#base
      .clone()
      .registerType("PolicyVariables", { ctor, fields: { ...this.#variables } })
      .registerVariable("variables", "PolicyVariables");
  }

  /** The type of an expression, in the words of cel-go. */
  typeOf(expression: string): string | undefined {
    return this.#check(expression).type;
  }

  /** Returns why an expression that compiles without types does not compile with them; undefined if it does. */
  fault(expression: string): string | undefined {
    return this.#check(expression).fault;
  }

  #check(expression: string): { readonly type?: string; readonly fault?: string } {
    try {
      const { valid, type, error } = this.#environment.parse(withLinearMatches(expression)).check();
      if (valid) return { type: type ?? "dyn" };
      return { fault: `compilation failed: ${compileErrorText(expression, error)}` };
    } catch (error) {
      return { fault: `compilation failed: ${compileErrorText(expression, error)}` };
    }
  }
}

function typeOf(environment: Environment, name: string): string {
  if (name === "authorizer") return authorizerType;
  const schema = name === "request" ? request : name === "namespaceObject" ? namespace : undefined;
  return schema === undefined
    ? "dyn"
    : declareStruct(environment, name === "request" ? "AdmissionRequest" : "Namespace", schema);
}

/** Declares the type of a schema. Unlike fields of objects, those of a request are not escaped: `request.namespace`. */
function declareStruct(environment: Environment, name: string, schema: Schema): string {
  switch (schema.type) {
    case "object": {
      const { properties, additionalProperties } = schema;
      if (properties === undefined) {
        return typeof additionalProperties === "object"
          ? `map<string, ${declareStruct(environment, name, additionalProperties)}>`
          : "dyn";
      }
      const fields = Object.entries(properties).map(([field, type]) => [
        field,
        declareStruct(environment, `${name}_${field}`, type),
      ]);
      environment.registerType(name, { ctor: class extends Map<string, unknown> {}, fields: Object.fromEntries(fields) });
      // cel-go lets objects be compared with null.
      environment.registerOperator(`${name} == null`, () => false);
      return name;
    }
    case "array":
      return `list<${schema.items === undefined ? "dyn" : declareStruct(environment, name, schema.items)}>`;
    case "boolean":
      return "bool";
    case "integer":
      return "int";
    case "string":
      return schema.format === "date-time" ? "google.protobuf.Timestamp" : "string";
    default:
      return "dyn";
  }
}
