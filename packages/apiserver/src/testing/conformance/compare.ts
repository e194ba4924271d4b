import { isJsonObject } from "@keelson/api-machinery";
import { loadNormalisation } from "./corpus.ts";

const placeholder = /<(rv|uid|gen|ip|nodeport):(\d+)>|<(time|microtime|listrv|continue|token|age)>/g;
const { placeholders } = loadNormalisation();

/** Compares the responses of one scenario with the recorded ones. A numbered placeholder stands for the same value throughout. */
export class Comparison {
  readonly #replaceVariables: (text: string) => string;
  /** Value by `kind:number`. */
  readonly #bound = new Map<string, string>();
  #comparesMessages = false;

  /** `replaceVariables` substitutes `${run}` and the namespaces. */
  constructor(replaceVariables: (text: string) => string) {
    this.#replaceVariables = replaceVariables;
  }

  /** The differences, one line each. */
  differences(expected: unknown, actual: unknown, comparesMessages = false): readonly string[] {
    this.#comparesMessages = comparesMessages;
    const found: string[] = [];
    this.#compare(expected, actual, "", found);
    return found;
  }

  #compare(expected: unknown, actual: unknown, path: string, found: string[]): void {
    if (typeof expected === "string") this.#compareText(expected, actual, path, found);
    else if (Array.isArray(expected)) this.#compareLists(expected, actual, path, found);
    else if (isJsonObject(expected)) this.#compareObjects(expected, actual, path, found);
    else if (expected !== actual) found.push(difference(path, expected, actual));
  }

  #compareLists(expected: readonly unknown[], actual: unknown, path: string, found: string[]): void {
    if (!Array.isArray(actual)) return void found.push(difference(path, expected, actual));
    for (let index = 0; index < Math.max(expected.length, actual.length); index++) {
      const at = `${path}/${index}`;
      if (index >= expected.length || index >= actual.length) found.push(difference(at, expected[index], actual[index]));
      else this.#compare(expected[index], actual[index], at, found);
    }
  }

  #compareObjects(expected: Record<string, unknown>, actual: unknown, path: string, found: string[]): void {
    if (!isJsonObject(actual)) return void found.push(difference(path, expected, actual));
    const seen = new Set(this.#comparesMessages ? [] : ["$message"]);
    for (const [recorded, value] of Object.entries(expected)) {
      if (recorded === "$message" && !this.#comparesMessages) continue;
      const key = this.#keyOf(recorded);
      seen.add(key);
      if (Object.hasOwn(actual, key)) this.#compare(value, actual[key], `${path}/${key}`, found);
      else found.push(difference(`${path}/${key}`, value, undefined));
    }
    for (const [key, value] of Object.entries(actual)) {
      if (!seen.has(key)) found.push(difference(`${path}/${key}`, undefined, value));
    }
  }

  /** A recorded key with its placeholders replaced by values seen earlier. */
  #keyOf(recorded: string): string {
    return this.#replaceVariables(recorded).replaceAll(
      placeholder,
      (all, kind: string | undefined, number: string) => this.#bound.get(`${kind}:${number}`) ?? all,
    );
  }

  #compareText(expected: string, actual: unknown, path: string, found: string[]): void {
    const names: string[] = [];
    let pattern = "";
    let end = 0;
    for (const match of expected.matchAll(placeholder)) {
      const kind = match[1] ?? match[3] ?? "";
      names.push(match[2] === undefined ? "" : `${kind}:${match[2]}`);
      pattern += `${escapePattern(this.#replaceVariables(expected.slice(end, match.index)))}(${placeholders[kind] ?? ""})`;
      end = match.index + match[0].length;
    }
    if (names.length === 0) {
      if (this.#replaceVariables(expected) !== actual) found.push(difference(path, expected, actual));
      return;
    }
    pattern += escapePattern(this.#replaceVariables(expected.slice(end)));
    const text = typeof actual === "number" && expected.startsWith("<nodeport:") ? String(actual) : actual;
    const values = typeof text === "string" ? new RegExp(`^(?:${pattern})$`).exec(text)?.slice(1) : undefined;
    if (values === undefined) return void found.push(difference(path, expected, actual));
    for (const [index, name] of names.entries()) {
      const clash = name === "" ? undefined : this.#bind(name, values[index] ?? "");
      if (clash !== undefined) found.push(`${difference(path, expected, actual)} (${clash})`);
    }
  }

  /** Binds `name` to `value`. Returns why that is not possible, or undefined. */
  #bind(name: string, value: string): string | undefined {
    const known = this.#bound.get(name);
    if (known !== undefined) return known === value ? undefined : `<${name}> is ${known}`;
    const [kind = "", number = ""] = name.split(":");
    for (const [other, otherValue] of this.#bound) {
      const [otherKind, otherNumber] = other.split(":");
      if (otherKind !== kind) continue;
      if (otherValue === value) return `<${other}> is the same`;
      const isAbove = Number(number) > Number(otherNumber);
      if (kind === "rv" && isAbove !== Number(value) > Number(otherValue)) {
        return `must be ${isAbove ? "above" : "below"} <${other}>, which is ${otherValue}`;
      }
    }
    this.#bound.set(name, value);
    return undefined;
  }
}

function escapePattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

function difference(path: string, expected: unknown, actual: unknown): string {
  return `${path || "/"}: expected ${show(expected)}, got ${show(actual)}`;
}

function show(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value);
  return text.length < 400 ? text : `${text.slice(0, 400)}...`;
}
