import type { Schema } from "../schema/schema.ts";
import { kubernetesEnvironment } from "./rule-program.ts";
import { boundsOf, scalarBounds, unknownBounds, type ValueBounds } from "./value-bounds.ts";

/** A node of the CEL library's syntax tree before macros are expanded. */
interface Node {
  readonly op: string;
  readonly args: unknown;
}

/** The greatest cost of evaluating a node, and the bounds of its value. */
interface Estimate {
  readonly cost: number;
  readonly value: ValueBounds;
}

const stringFactor = 0.1;
const regexFactor = 0.25;
const listCost = 10;
const mapCost = 30;

/**
 * Estimates the greatest cost of a rule on values of its schema, in the units of kube-apiserver: by the limits that the schema sets to
 * strings, lists and maps (cel-go's cost estimator with Kubernetes' sizes and libraries). 0 for an expression that does not parse.
 */
export function estimateCost(expression: string, schema: Schema): number {
  let root: unknown;
  try {
    root = kubernetesEnvironment().parse(expression).ast;
  } catch {
    return 0;
  }
  const self = boundsOf(schema);
  return estimate(root as Node, new Map([...["self", "oldSelf"].map((name) => [name, self] as const)])).cost;
}

type Scope = ReadonlyMap<string, ValueBounds>;

function estimate({ op, args }: Node, scope: Scope): Estimate {
  const list = Array.isArray(args) ? (args as readonly unknown[]) : [args];
  const child = (index: number): Estimate => estimate(list[index] as Node, scope);
  switch (op) {
    case "value":
      return { cost: 0, value: literalBounds(args) };
    case "id":
      return { cost: 1, value: scope.get(String(args)) ?? unknownBounds };
    case ".":
    case ".?": {
      const target = child(0);
      return { cost: target.cost + 1, value: propertyOf(target.value, String(list[1])) };
    }
    case "[]":
    case "[?]": {
      const [target, key] = [child(0), child(1)];
      return { cost: target.cost + key.cost + 1, value: target.value.element?.() ?? unknownBounds };
    }
    case "list":
      return created(listCost, list as readonly Node[], scope);
    case "map":
      return created(mapCost, (list as readonly (readonly Node[])[]).flat(), scope);
    case "?:": {
      const [condition, yes, no] = [child(0), child(1), child(2)];
      return { cost: condition.cost + Math.max(yes.cost, no.cost), value: larger(yes.value, no.value) };
    }
    case "call":
      return estimateCall(String(list[0]), undefined, list[1] as readonly Node[], scope);
    case "rcall":
      return estimateCall(String(list[0]), list[1] as Node, list[2] as readonly Node[], scope);
    default:
      return list.length === 2 ? estimateOperator(op, child(0), child(1)) : { cost: child(0).cost + 1, value: scalarBounds };
  }
}

function literalBounds(value: unknown): ValueBounds {
  return typeof value === "string" ? { size: value.length } : scalarBounds;
}

function propertyOf(target: ValueBounds, name: string): ValueBounds {
  if (target.isMap === true) return target.element?.() ?? unknownBounds;
  return target.property?.(unescaped(name)) ?? unknownBounds;
}

/** Undoes how names of properties are written in CEL: `__dash__`. */
function unescaped(name: string): string {
  const escapes: Readonly<Record<string, string>> = { underscores: "__", dot: ".", dash: "-", slash: "/" };
  return name
    .replaceAll(/__(underscores|dot|dash|slash)__/g, (_, word: string) => escapes[word] ?? "")
    .replace(/^__(.*)__$/, "$1");
}

function created(base: number, nodes: readonly Node[], scope: Scope): Estimate {
  const elements = nodes.map((node) => estimate(node, scope));
  const element = elements.map(({ value }) => value).reduce(larger, { size: 0 });
  return { cost: base + sumOf(elements), value: { size: nodes.length, element: () => element } };
}

function larger(a: ValueBounds, b: ValueBounds): ValueBounds {
  return a.size >= b.size ? a : b;
}

function sumOf(estimates: readonly Estimate[]): number {
  return estimates.reduce((sum, { cost }) => sum + cost, 0);
}

function estimateOperator(op: string, left: Estimate, right: Estimate): Estimate {
  const both = left.cost + right.cost;
  switch (op) {
    case "&&":
    case "||":
      return { cost: both, value: scalarBounds };
    case "in":
      return { cost: both + right.value.size, value: scalarBounds };
    case "==":
    case "!=":
    case "<":
    case "<=":
    case ">":
    case ">=":
      return { cost: both + Math.ceil(Math.min(left.value.size, right.value.size) * stringFactor), value: scalarBounds };
    case "+": {
      const size = left.value.size + right.value.size;
      const isText = left.value !== scalarBounds && left.value.element === undefined;
      if (!isText) return { cost: both + 1, value: left.value === scalarBounds ? scalarBounds : { ...left.value, size } };
      return { cost: both + Math.ceil(size * stringFactor), value: { size } };
    }
    default:
      return { cost: both + 1, value: scalarBounds };
  }
}

/** What a macro adds to each step, and to the whole. */
const macros: Readonly<Record<string, { readonly step: number; readonly once: number }>> = {
  all: { step: 3, once: 1 },
  exists: { step: 4, once: 1 },
  exists_one: { step: 2, once: 3 },
  existsOne: { step: 2, once: 3 },
  filter: { step: 13, once: listCost + 1 },
  map: { step: 12, once: listCost + 1 },
};

function estimateCall(name: string, target: Node | undefined, nodes: readonly Node[], scope: Scope): Estimate {
  const macro = Object.hasOwn(macros, name) ? macros[name] : undefined;
  if (target !== undefined && macro !== undefined && nodes.length >= 2 && nodes[0]?.op === "id") {
    return estimateMacro(name, macro, target, nodes, scope);
  }
  if (name === "has" && target === undefined) {
    // Presence is free, its operand is not.
    const [selected] = nodes;
    const operand = Array.isArray(selected?.args) ? (selected.args[0] as Node) : undefined;
    return { cost: operand === undefined ? 0 : estimate(operand, scope).cost, value: scalarBounds };
  }
  const receiver = target && estimate(target, scope);
  const parameters = nodes.map((node) => estimate(node, scope));
  const { cost, value = scalarBounds } = costOfFunction(
    name,
    receiver?.value,
    parameters.map((each) => each.value),
  );
  return { cost: cost + (receiver?.cost ?? 0) + sumOf(parameters), value };
}

function estimateMacro(
  name: string,
  { step, once }: { readonly step: number; readonly once: number },
  target: Node,
  [variable, ...bodies]: readonly Node[],
  scope: Scope,
): Estimate {
  const range = estimate(target, scope);
  const item = range.value.isMap === true ? { size: unknownBounds.size } : (range.value.element?.() ?? unknownBounds);
  const inner = new Map([...scope, [String(variable?.args), item]]);
  const steps = bodies.map((body) => estimate(body, inner));
  const cost = range.cost + once + range.value.size * (sumOf(steps) + step);
  if (name === "map") return { cost, value: { size: range.value.size, element: () => steps.at(-1)?.value ?? unknownBounds } };
  return { cost, value: name === "filter" ? { size: range.value.size, element: () => item } : scalarBounds };
}

interface FunctionCost {
  readonly cost: number;
  readonly value?: ValueBounds;
}

/** The cost of a function beyond that of its arguments. */
function costOfFunction(name: string, target: ValueBounds | undefined, parameters: readonly ValueBounds[]): FunctionCost {
  const size = target?.size ?? parameters[0]?.size ?? 1;
  const [first] = target === undefined ? parameters.slice(1) : parameters;
  const traversal = (length: number, factor = stringFactor): number => Math.ceil(length * factor);
  switch (name) {
    case "startsWith":
    case "endsWith":
      return { cost: traversal(first?.size ?? 1) };
    case "matches":
      return { cost: traversal(size + 1) * traversal(first?.size ?? 1, regexFactor) };
    case "contains":
      return { cost: traversal(size) * traversal(first?.size ?? 1) };
    case "find":
    case "findAll":
      return { cost: traversal(size + 1) * traversal(first?.size ?? 1, regexFactor), value: { size } };
    case "lowerAscii":
    case "upperAscii":
    case "substring":
    case "trim":
    case "url":
      return { cost: traversal(size), value: { size } };
    case "replace":
      return { cost: traversal(size, 2 * stringFactor), value: { size: replacedSize(size, parameters) } };
    case "split":
      return { cost: traversal(size, 2 * stringFactor), value: { size, element: () => ({ size }) } };
    case "join": {
      const joined = size * (target?.element?.().size ?? 1) + (first?.size ?? 0) * Math.max(0, size - 1);
      return { cost: traversal(joined), value: { size: joined } };
    }
    case "isSorted":
    case "sum":
    case "max":
    case "min":
    case "indexOf":
    case "lastIndexOf":
      return { cost: costOfVisit(target ?? unknownBounds) };
    case "quantity":
    case "isQuantity":
    case "semver":
    case "isSemver":
    case "isIP":
    case "isCIDR":
    case "ip":
    case "cidr":
      return { cost: traversal(size) };
    default:
      return { cost: 1 };
  }
}

/** Visits every item of a list, or every character of a string. */
function costOfVisit(target: ValueBounds): number {
  const element = target.element?.();
  if (element === undefined) return Math.ceil(target.size * stringFactor);
  return target.size * (1 + (element === scalarBounds ? 0 : Math.ceil(element.size * stringFactor)));
}

function replacedSize(size: number, [search, replacement]: readonly ValueBounds[]): number {
  const shortest = search?.size ?? 0;
  const count = shortest === 0 ? size + 1 : Math.ceil(size / shortest);
  return size + count * (replacement?.size ?? 0);
}
