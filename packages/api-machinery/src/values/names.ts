const label1123 = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const subdomain1123 = `${label1123}(\\.${label1123})*`;
const label1035 = "[a-z]([-a-z0-9]*[a-z0-9])?";
const qualified = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const labelValue = `(${qualified})?`;
const configKey = "[-._a-zA-Z0-9]+";

const label1123Expression = new RegExp(`^${label1123}$`);
const subdomain1123Expression = new RegExp(`^${subdomain1123}$`);
const label1035Expression = new RegExp(`^${label1035}$`);
const qualifiedExpression = new RegExp(`^${qualified}$`);
const prefixedExpression = new RegExp(`^(${subdomain1123}/)?${qualified}$`);
const labelValueExpression = new RegExp(`^${labelValue}$`);
const configKeyExpression = new RegExp(`^${configKey}$`);

const maxPrefix = 253;
const maxQualified = 63;

/** The pattern of a name, and kube-apiserver's message about it. */
interface NameRule {
  readonly max: number;
  /** kube-apiserver counts bytes everywhere, but names them only in messages about labels. */
  readonly unit: "bytes" | "characters";
  readonly expression: RegExp;
  readonly text: string;
  readonly source: string;
  readonly examples: readonly string[];
}

const subdomainRule: NameRule = {
  max: 253,
  unit: "characters",
  expression: subdomain1123Expression,
  text: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
  source: subdomain1123,
  examples: ["example.com"],
};

const label1123WithUnderscore = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
const subdomainWithUnderscore = `${label1123WithUnderscore}(\\.${label1123WithUnderscore})*`;

const subdomainWithUnderscoreRule: NameRule = {
  max: 253,
  unit: "characters",
  expression: new RegExp(`^${subdomainWithUnderscore}$`),
  text: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
  source: subdomainWithUnderscore,
  examples: ["example.com"],
};

const label1123Rule: NameRule = {
  max: 63,
  unit: "characters",
  expression: label1123Expression,
  text: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
  source: label1123,
  examples: ["my-name", "123-abc"],
};

const label1035Rule: NameRule = {
  max: 63,
  unit: "characters",
  expression: label1035Expression,
  text: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
  source: label1035,
  examples: ["my-name", "abc-123"],
};

const labelValueRule: NameRule = {
  max: 63,
  unit: "bytes",
  expression: labelValueExpression,
  text: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  source: labelValue,
  examples: ["MyValue", "my_value", "12345"],
};

const configKeyRule: NameRule = {
  max: 253,
  unit: "characters",
  expression: configKeyExpression,
  text: "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
  source: configKey,
  examples: ["key.name", "KEY_NAME", "key-name"],
};

/**
 * Explains why `value` is not a DNS-1123 subdomain, the form of most object names. Uses Kubernetes' messages; empty if it is
 * one.
 */
export function dns1123SubdomainFaults(value: string): string[] {
  return faults(value, subdomainRule);
}

/** Explains why `value` is not a DNS-1123 subdomain whose labels may contain underscores, the form of DNS search paths. */
export function dns1123SubdomainWithUnderscoreFaults(value: string): string[] {
  return faults(value, subdomainWithUnderscoreRule);
}

/** Explains why `value` is not a DNS-1123 label, the form of namespace and container names. */
export function dns1123LabelFaults(value: string): string[] {
  // A subdomain that is not a label has dots, or is too long.
  if (!label1123Expression.test(value.slice(0, 4 * 253)) && subdomain1123Expression.test(value.slice(0, 4 * 253))) {
    return [...(value.length > 63 ? ["must be no more than 63 characters"] : []), "must not contain dots"];
  }
  return faults(value, label1123Rule);
}

/** Explains why `value` is not a DNS-1035 label, the form of Service names and of kinds and versions in CRDs. */
export function dns1035LabelFaults(value: string): string[] {
  return faults(value, label1035Rule);
}

/** Explains why `value` is not a qualified name `[prefix/]name`, the form of label and annotation keys and of finalizers. */
export function qualifiedNameFaults(value: string): string[] {
  return isQualifiedName(value) ? [] : faultsOfQualifiedName(value);
}

/** An object can have tens of thousands of keys: valid ones take one match. */
function isQualifiedName(value: string): boolean {
  if (value.length > maxPrefix + 1 + maxQualified || !prefixedExpression.test(value)) return false;
  const slash = value.indexOf("/");
  return slash <= maxPrefix && value.length - slash - 1 <= maxQualified;
}

function faultsOfQualifiedName(value: string): string[] {
  const parts = value.split("/");
  const text =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
  const examples = ["MyName", "my.name", "123-abc"];
  if (parts.length > 2) {
    return [
      `a valid label key ${regexFault(text, qualified, examples)} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const name = parts.at(-1) ?? "";
  const result: string[] = [];
  if (parts.length === 2) {
    const prefix = parts[0] ?? "";
    if (prefix === "") result.push("prefix part must be non-empty");
    else {
      const rule: NameRule = { ...subdomainRule, unit: "bytes" };
      result.push(...faults(prefix, rule).map((fault) => `prefix part ${fault}`));
    }
  }
  if (name === "") result.push("name part must be non-empty");
  else if (name.length > 63) result.push("name part must be no more than 63 bytes");
  if (!qualifiedExpression.test(name)) result.push(`name part ${regexFault(text, qualified, examples)}`);
  return result;
}

/** Explains why `value` is not a label key. Label keys are qualified names. */
export function labelKeyFaults(value: string): string[] {
  return qualifiedNameFaults(value);
}

/** Explains why `value` is not a label value. */
export function labelValueFaults(value: string): string[] {
  return faults(value, labelValueRule);
}

/** Explains why `value` is not a key of a ConfigMap or Secret. */
export function configMapKeyFaults(value: string): string[] {
  const result = faults(value, configKeyRule);
  if (value === ".") result.push("must not be '.'");
  else if (value === "..") result.push("must not be '..'");
  else if (value.startsWith("..")) result.push("must not start with '..'");
  return result;
}

/** The maximum size of a path segment that is a name: with its namespace, it must fit into a key of the storage. */
const maxPathSegmentBytes = 1_500;

/** Explains why `value` is not a path segment, the form of names of Roles and other kinds without a stricter rule. */
export function pathSegmentFaults(value: string): string[] {
  if (value === "." || value === "..") return [`may not be '${value}'`];
  if (new TextEncoder().encode(value).length > maxPathSegmentBytes)
    return [`must be no more than ${maxPathSegmentBytes} bytes`];
  return ["/", "%"].filter((char) => value.includes(char)).map((char) => `may not contain '${char}'`);
}

/** Reports whether `value` is a DNS-1123 label. */
export function isDns1123LabelName(value: string): boolean {
  return value.length <= 63 && label1123Expression.test(value);
}

/** Reports whether `value` is a DNS-1123 subdomain. */
export function isDns1123SubdomainName(value: string): boolean {
  return value.length <= 253 && subdomain1123Expression.test(value);
}

const suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789";
const suffixLength = 5;
const maxGeneratedName = 63;

/**
 * Generates a name from `metadata.generateName`: the base, truncated to leave room, and five random characters without
 * vowels.
 *
 * `random` returns numbers from 0 up to but excluding 1, as `Math.random` does.
 */
export function generateName(base: string, random: () => number): string {
  let name = base.slice(0, maxGeneratedName - suffixLength);
  for (let count = 0; count < suffixLength; count++)
    name += suffixAlphabet[Math.floor(random() * suffixAlphabet.length)] ?? "b";
  return name;
}

function faults(value: string, { max, unit, expression, text, source, examples }: NameRule): string[] {
  const result: string[] = [];
  if (value.length > max) result.push(`must be no more than ${max} ${unit}`);
  // Bounds the input of the expressions: a text that is too long fails by its start alone.
  if (!expression.test(value.slice(0, 4 * max))) result.push(regexFault(text, source, examples));
  return result;
}

function regexFault(text: string, source: string, examples: readonly string[]): string {
  const quoted = examples.map((example) => `'${example}'`).join(",  or ");
  return `${text} (e.g. ${quoted}, regex used for validation is '${source}')`;
}
