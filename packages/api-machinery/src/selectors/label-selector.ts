import { labelKeyFaults, labelValueFaults } from "../values/names.ts";
import { invalidCause } from "../protocol/field-causes.ts";
import { quoteText } from "../protocol/quote-text.ts";
import { statusError, type StatusError } from "../protocol/status.ts";
import { tokenizeSelector, type SelectorToken } from "./selector-tokens.ts";

/** A label selector as used in objects (meta/v1 LabelSelector). All parts must hold. */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: LabelSelectorRequirement[];
}

/** One expression of a {@link LabelSelector}. */
export interface LabelSelectorRequirement {
  key: string;
  /** `In`, `NotIn`, `Exists` or `DoesNotExist`. */
  operator: string;
  values?: string[];
}

/** Operators of a {@link Requirement} (apimachinery `selection.Operator`); `gt` and `lt` compare integers. */
export type SelectorOperator = "=" | "==" | "!=" | "in" | "notin" | "exists" | "!" | "gt" | "lt";

/** A requirement on one label. */
export interface Requirement {
  readonly key: string;
  readonly operator: SelectorOperator;
  readonly values: readonly string[];
}

/** A compiled label selector. */
export interface Selector {
  /** All must hold. */
  readonly requirements: readonly Requirement[];
  /** Selects everything. */
  readonly isEmpty: boolean;
  /** Selects nothing, whatever the labels: the result of an absent selector. */
  readonly isNothing: boolean;
  matches(labels: Readonly<Record<string, string>> | undefined): boolean;
  /** Formats the selector for a `labelSelector` parameter, with sorted keys. */
  toString(): string;
}

/** Selects every object. */
export const everything: Selector = createSelector([]);

/** Selects no object. */
export const nothing: Selector = {
  requirements: [],
  isEmpty: false,
  isNothing: true,
  matches: () => false,
  toString: () => "",
};

/** Creates a selector from requirements, which must be valid. */
export function createSelector(requirements: readonly Requirement[]): Selector {
  const sorted = requirements.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  const indexed = sorted.map(withIndex);
  return {
    requirements: sorted,
    isEmpty: sorted.length === 0,
    isNothing: false,
    matches: (labels) => indexed.every((requirement) => holds(requirement, labels)),
    toString: () => sorted.map(printRequirement).join(","),
  };
}

/**
 * Parses a label selector as in `kubectl get -l`: `app=web,tier in (a,b),!legacy,weight>5`.
 *
 * **Errors**: a `StatusError` BadRequest with kube-apiserver's message.
 */
export function parseLabelSelector(text: string): Selector {
  return createSelector(new SelectorParser(text).parse());
}

/**
 * Creates a selector from the `selector` field of an object. As everywhere in Kubernetes, an absent one selects nothing and
 * an empty one selects everything.
 *
 * **Errors**: a `StatusError` BadRequest that names the key and the value.
 */
export function selectorFromObject(selector: Readonly<LabelSelector> | null | undefined): Selector {
  if (selector === null || selector === undefined) return nothing;
  const requirements: Requirement[] = [];
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) requirements.push(requirement(key, "=", [value]));
  for (const { key, operator, values = [] } of selector.matchExpressions ?? []) {
    const own = Object.hasOwn(objectOperators, operator) ? objectOperators[operator] : undefined;
    if (own === undefined) throw refusal(`"${operator}" is not a valid label selector operator`);
    requirements.push(requirement(key, own, values));
  }
  return createSelector(requirements);
}

/** Creates a selector for exactly these labels, as Services and ReplicationControllers use it. */
export function selectorFromLabels(labels: Readonly<Record<string, string>>): Selector {
  return createSelector(Object.entries(labels).map(([key, value]) => ({ key, operator: "=", values: [value] })));
}

const objectOperators: Readonly<Record<string, SelectorOperator>> = {
  In: "in",
  NotIn: "notin",
  Exists: "exists",
  DoesNotExist: "!",
};

function refusal(message: string): StatusError {
  return statusError("BadRequest", message);
}

/** Creates a requirement, checked by the rules of apimachinery `labels.NewRequirement`. */
function requirement(key: string, operator: SelectorOperator, values: readonly string[]): Requirement {
  const faults = labelKeyFaults(key).map((fault) => invalidCause("key", key, fault));
  const reject = (detail: string) => faults.push(invalidCause("values", values, detail));
  if ((operator === "in" || operator === "notin") && values.length === 0) {
    reject("for 'in', 'notin' operators, values set can't be empty");
  } else if ((operator === "=" || operator === "==" || operator === "!=") && values.length !== 1) {
    reject("exact-match compatibility requires one single value");
  } else if ((operator === "exists" || operator === "!") && values.length > 0) {
    reject("values set must be empty for exists and does not exist");
  } else if (operator === "gt" || operator === "lt") {
    if (values.length !== 1) reject("for 'Gt', 'Lt' operators, exactly one value is required");
    values.forEach((value, index) => {
      if (toInteger(value) !== undefined) return;
      faults.push(invalidCause(`values[${index}]`, value, "for 'Gt', 'Lt' operators, the value must be an integer"));
    });
  }
  values.forEach((value, index) => {
    const [fault] = labelValueFaults(value);
    if (fault !== undefined) faults.push(invalidCause(`values[${index}][${key}]`, value, fault));
  });
  if (faults.length > 0) {
    const lines = faults.map((fault) => `${fault.field}: ${fault.message}`);
    throw refusal(lines.length === 1 ? (lines[0] ?? "") : `[${lines.join(", ")}]`);
  }
  return { key, operator, values };
}

function toInteger(text: string): bigint | undefined {
  if (!/^[+-]?\d{1,19}$/.test(text)) return undefined;
  const value = BigInt(text.replace("+", ""));
  return value === BigInt.asIntN(64, value) ? value : undefined;
}

/** A requirement whose values are found in constant time. */
interface IndexedRequirement extends Requirement {
  includes(value: string): boolean;
}

/** Fewer values are compared faster one by one than by their hashes. */
const minIndexedValues = 8;

function withIndex(requirement: Requirement): IndexedRequirement {
  const { values } = requirement;
  if (values.length < minIndexedValues) return { ...requirement, includes: (value) => values.includes(value) };
  const set = new Set(values);
  return { ...requirement, includes: (value) => set.has(value) };
}

function holds(
  { key, operator, values, includes }: IndexedRequirement,
  labels: Readonly<Record<string, string>> | undefined,
): boolean {
  const value = labels && Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case "=":
    case "==":
    case "in":
      return value !== undefined && includes(value);
    case "!=":
    case "notin":
      return value === undefined || !includes(value);
    case "exists":
      return value !== undefined;
    case "!":
      return value === undefined;
    case "gt":
    case "lt": {
      const actual = value === undefined ? undefined : toInteger(value);
      const bound = toInteger(values[0] ?? "");
      if (actual === undefined || bound === undefined) return false;
      return operator === "gt" ? actual > bound : actual < bound;
    }
  }
}

function printRequirement({ key, operator, values }: Requirement): string {
  switch (operator) {
    case "exists":
      return key;
    case "!":
      return `!${key}`;
    case "in":
    case "notin":
      return `${key} ${operator} (${values.toSorted().join(",")})`;
    case "gt":
      return `${key}>${values[0]}`;
    case "lt":
      return `${key}<${values[0]}`;
    default:
      return `${key}${operator}${values[0]}`;
  }
}

const symbols: Readonly<Record<string, SelectorOperator>> = { "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt" };

class SelectorParser {
  readonly #tokens: readonly SelectorToken[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = tokenizeSelector(text);
  }

  parse(): Requirement[] {
    const requirements: Requirement[] = [];
    for (;;) {
      const token = this.#peek();
      if (token.kind === "end") return requirements;
      if (token.kind !== "word" && token.text !== "!") {
        throw refusal(`found '${token.text}', expected: !, identifier, or 'end of string'`);
      }
      try {
        requirements.push(this.#requirement());
      } catch (error) {
        throw refusal(`unable to parse requirement: ${error instanceof Error ? error.message : String(error)}`);
      }
      const next = this.#take();
      if (next.kind === "end") return requirements;
      if (next.text !== "," || next.kind === "word") throw refusal(`found '${next.text}', expected: ',' or 'end of string'`);
      const after = this.#peek();
      if (after.kind !== "word" && after.text !== "!") throw refusal(`found '${after.text}', expected: identifier after ','`);
    }
  }

  #peek(): SelectorToken {
    return this.#tokens[this.#at] ?? { kind: "end", text: "" };
  }

  #take(): SelectorToken {
    const token = this.#peek();
    this.#at++;
    return token;
  }

  #requirement(): Requirement {
    const isAbsent = this.#peek().text === "!" && this.#peek().kind === "symbol";
    if (isAbsent) this.#take();
    const key = this.#take();
    if (key.kind !== "word") throw refusal(`found '${key.text}', expected: identifier`);
    const faults = labelKeyFaults(key.text);
    // Reports an invalid key before anything that follows it. Its field has no name.
    if (faults.length > 0) throw refusal(`<nil>: Invalid value: ${quoteText(key.text)}: ${faults.join("; ")}`);
    if (isAbsent) return requirement(key.text, "!", []);
    const next = this.#peek();
    if (next.kind === "end" || (next.kind === "symbol" && next.text === ",")) return requirement(key.text, "exists", []);
    const operator = this.#operator();
    return requirement(key.text, operator, operator === "in" || operator === "notin" ? this.#values() : [this.#exactValue()]);
  }

  #operator(): SelectorOperator {
    const { kind, text } = this.#take();
    const operator = kind === "symbol" && Object.hasOwn(symbols, text) ? symbols[text] : undefined;
    if (operator) return operator;
    if (kind === "word" && (text === "in" || text === "notin")) return text;
    throw refusal(`found '${text}', expected: in, notin, =, ==, !=, gt, lt`);
  }

  #exactValue(): string {
    const next = this.#peek();
    if (next.kind === "end" || (next.kind === "symbol" && next.text === ",")) return "";
    this.#take();
    if (next.kind !== "word") throw refusal(`found '${next.text}', expected: identifier`);
    return next.text;
  }

  /** Parses `(a, b)`. A missing value, as in `()` and `(a,)`, is the empty string. */
  #values(): string[] {
    const open = this.#take();
    if (open.kind !== "symbol" || open.text !== "(") throw refusal(`found '${open.text}' expected: '('`);
    const values = new Set<string>();
    for (;;) {
      const token = this.#take();
      if (token.kind === "end" && values.size === 0) throw refusal("found '', expected: ',', ')' or identifier");
      let value = "";
      let next = token;
      if (token.kind === "word") {
        value = token.text;
        next = this.#take();
      }
      values.add(value);
      if (next.kind === "symbol" && next.text === ")") return [...values];
      if (next.kind !== "symbol" || next.text !== ",") throw refusal(`found '${next.text}', expected: ',' or ')'`);
    }
  }
}
