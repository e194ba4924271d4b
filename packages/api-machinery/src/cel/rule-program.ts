import type { Environment, Optional } from "@marcbachmann/cel-js";
import type { Schema, ValidationRule } from "../schema/schema.ts";
import { registerAuthorizerLibrary } from "./libraries/authorizer-library.ts";
import { compileErrorText } from "./compile-error.ts";
import { celEngine } from "./engine.ts";
import { registerKubernetesLibrary } from "./libraries/kubernetes-library.ts";
import { registerNetworkLibrary } from "./libraries/network-library.ts";
import { registerVersionLibrary } from "./libraries/version-library.ts";
import { type CelType, declareCelType } from "./object-types.ts";
import { linearMatches, registerStringLibrary } from "./libraries/string-library.ts";
import { literalPatternFault } from "./untyped-calls.ts";

/** A compiled CEL rule. */
export interface RuleProgram {
  readonly rule: ValidationRule;
  /** Whether it compares with the old value. Transition rules are skipped for new values. */
  readonly isTransition: boolean;
  /** Whether it mentions the old value, which may be optional. */
  readonly usesOld: boolean;
  /** The nesting of its comprehensions and the number of its nodes, which bound the cost of evaluating it. */
  readonly size: RuleSize;
  /** Evaluates the rule. Throws if the rule fails to evaluate. */
  evaluate(variables: RuleVariables): unknown;
  /** Evaluates the message expression, if there is one. Throws likewise. */
  message?(variables: RuleVariables): unknown;
}

/** The bounds of a rule's cost. */
export interface RuleSize {
  readonly nodes: number;
  readonly nesting: number;
}

/** The variables of a rule as CEL values. */
export interface RuleVariables {
  readonly self: unknown;
  readonly oldSelf?: unknown;
}

/** A rule that did not compile, and why. */
export interface RuleFault {
  readonly index: number;
  readonly field: "rule" | "messageExpression";
  readonly message: string;
}

/** The rules of one schema. */
export interface RuleSet {
  readonly type: CelType | undefined;
  readonly programs: readonly RuleProgram[];
  readonly faults: readonly RuleFault[];
}

let base: Environment | undefined;

/** Creates a CEL environment with Kubernetes' libraries and without access to this process. */
export function kubernetesEnvironment(): Environment {
  if (base === undefined) {
    base = new (celEngine().Environment)({
      enableOptionalTypes: true,
      // `format` accepts lists of mixed types.
      homogeneousAggregateLiterals: false,
      limits: { maxAstNodes: 10_000, maxDepth: 100 },
    });
    registerStringLibrary(base);
    registerNetworkLibrary(base);
    registerVersionLibrary(base);
    registerKubernetesLibrary(base);
    registerAuthorizerLibrary(base);
  }
  return base;
}

const compiled = new WeakMap<Schema, RuleSet>();

/** Compiles the rules of a schema once. `isObjectRoot`: the schema is that of a whole object. */
export function compileRules(schema: Schema, isObjectRoot: boolean): RuleSet {
  let rules = compiled.get(schema);
  if (rules === undefined) {
    rules = compileAll(schema, isObjectRoot);
    compiled.set(schema, rules);
  }
  return rules;
}

function compileAll(schema: Schema, isObjectRoot: boolean): RuleSet {
  const environment = kubernetesEnvironment().clone();
  const type = declareCelType(environment, schema, isObjectRoot);
  const programs: RuleProgram[] = [];
  const faults: RuleFault[] = [];
  const withOld = environment.clone();
  const withOptionalOld = environment.clone();
  const name = type?.name ?? "dyn";
  withOld.registerVariable("self", name).registerVariable("oldSelf", name);
  withOptionalOld.registerVariable("self", name).registerVariable("oldSelf", `optional<${name}>`);
  for (const [index, rule] of (schema["x-kubernetes-validations"] ?? []).entries()) {
    const chosen = rule.optionalOldSelf === true ? withOptionalOld : withOld;
    const program = compileOne(chosen, rule.rule, "bool");
    if (typeof program === "string") {
      faults.push({ index, field: "rule", message: program });
      continue;
    }
    const message = rule.messageExpression === undefined ? undefined : compileOne(chosen, rule.messageExpression, "string");
    if (typeof message === "string") faults.push({ index, field: "messageExpression", message });
    const usesOld = /\boldSelf\b/.test(code(rule.rule));
    programs.push({
      rule,
      usesOld,
      isTransition: usesOld && rule.optionalOldSelf !== true,
      size: sizeOf(rule.rule),
      evaluate: program,
      ...(typeof message === "function" ? { message } : {}),
    });
  }
  return { type, programs, faults };
}

type Program = (variables: RuleVariables) => unknown;

/** Compiles an expression, or returns why it does not compile. */
function compileOne(environment: Environment, expression: string, wanted: "bool" | "string"): Program | string {
  try {
    const parsed = environment.parse(withLinearMatches(expression));
    const { valid, type, error } = parsed.check();
    const fault = valid ? literalPatternFault(parsed.ast) : error;
    if (!valid || fault !== undefined) return `compilation failed: ${compileErrorText(expression, fault)}`;
    if (type !== wanted && type !== "dyn") return `must evaluate to a ${wanted}`;
    return (variables) => parsed({ ...variables });
  } catch (error) {
    return `compilation failed: ${compileErrorText(expression, error)}`;
  }
}

/** `oldSelf` for rules that also run on new values. */
export function optionalOld(value: unknown): Optional<unknown> {
  const { Optional } = celEngine();
  return value === undefined ? Optional.none() : Optional.of(value);
}

const literal = /[rR]?(?:"""(?:\\[^]|[^\\])*?"""|'''(?:\\[^]|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\/\/[^\n]*/g;

/** Removes string literals and comments from an expression. */
function code(expression: string): string {
  return expression.replaceAll(literal, '""');
}

/** Renames calls of `matches` to the linear-time variant. */
export function withLinearMatches(expression: string): string {
  let result = "";
  let end = 0;
  const rename = (text: string): string => text.replaceAll(/\bmatches(?=\s*\()/g, linearMatches);
  for (const match of expression.matchAll(literal)) {
    result += rename(expression.slice(end, match.index)) + match[0];
    end = match.index + match[0].length;
  }
  return result + rename(expression.slice(end));
}

/** Counted in the text, because macros are expanded in the tree. */
function sizeOf(expression: string): RuleSize {
  const text = code(expression);
  const nodes = text.match(/[A-Za-z_][A-Za-z0-9_]*|\d+|[^\sA-Za-z0-9_]/g)?.length ?? 0;
  let nesting = 0;
  const open: boolean[] = [];
  for (const token of text.matchAll(/\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(|[()]/g)) {
    if (token[0] === ")") open.pop();
    else {
      open.push(token[0] !== "(");
      nesting = Math.max(nesting, open.filter(Boolean).length);
    }
  }
  return { nodes, nesting };
}
