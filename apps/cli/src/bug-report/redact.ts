import { type DeepReadonly, isJsonObject, type JsonValue, type KubernetesObject, setOwn } from "@keelson/api-machinery";

/** Replaces every removed value. */
export const redacted = "REDACTED";

const sensitiveName =
  /(?:pass(?:word|wd|phrase)?|secret|token|credentials?|authorization|(?:api|access|private|secret)[-_]?key|requirepass|masterauth)$/i;

/** Maps of variables by name, and lists of variables with a value. */
const variableFields = /^(?:env|envs|environment|variables|secrets)$/i;

const secretFields: ReadonlySet<string> = new Set(["data", "stringData"]);

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";

const textRules: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN ([A-Z ]{0,40}PRIVATE KEY)-----[^-]*-----END [A-Z ]{0,40}PRIVATE KEY-----/g, redacted],
  [/\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*/g, redacted],
  [/\b(Bearer|Basic) [\w.~+/=-]{6,}/g, `$1 ${redacted}`],
  [/(\b[a-z][a-z\d+.-]{0,20}:\/\/)[^\s/@"']{1,200}@/gi, `$1${redacted}@`],
  [
    /([\w.-]{0,60}(?:password|passwd|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|requirepass|masterauth)\\?["']?[ \t]{0,3}[:=][ \t]{0,3}\\?["']?)[^\s"'\\,;&}\]]+/gi,
    `$1${redacted}`,
  ],
  [
    /(--?[\w-]{0,60}(?:password|passwd|passphrase|secret|token|api-key|access-key|requirepass|masterauth))[ \t]+[^\s-][^\s]*/gi,
    `$1 ${redacted}`,
  ],
];

/** Removes credentials that text contains: private keys, tokens, user information in URLs, and values whose names indicate secrets. */
export function redactText(text: string): string {
  return textRules.reduce((current, [pattern, replacement]) => current.replace(pattern, replacement), text);
}

/**
 * A copy of an object without credentials: the data of Secrets and embedded Secrets, payloads, values of environment variables, and
 * fields and arguments whose names indicate secrets. `managedFields` and the annotation of `kubectl apply`, which repeat the object, are
 * omitted.
 */
export function redactObject(object: DeepReadonly<KubernetesObject>): JsonValue {
  const { metadata, ...rest } = object as DeepReadonly<KubernetesObject> & Readonly<Record<string, unknown>>;
  const { managedFields: _, annotations, ...kept } = metadata;
  const { [lastApplied]: __, ...otherAnnotations } = annotations ?? {};
  const all = { ...rest, metadata: { ...kept, ...(annotations === undefined ? {} : { annotations: otherAnnotations }) } };
  return redactValue(all as unknown as JsonValue);
}

function redactValue(value: JsonValue): JsonValue {
  if (typeof value === "string") return redactText(value);
  if (Array.isArray(value))
    return value.map((item, index) => (isArgumentOf(value[index - 1], item) ? redacted : redactValue(item)));
  if (!isJsonObject(value)) return value;
  const result: Record<string, JsonValue> = {};
  const isSecret = value["kind"] === "Secret";
  for (const [name, field] of Object.entries(value)) {
    setOwn(result, name, isSecret && secretFields.has(name) ? redacted : redactField(name, field));
  }
  return result;
}

function redactField(name: string, field: JsonValue): JsonValue {
  if (variableFields.test(name)) return redactVariables(field);
  const isSensitive = name === "payload" || sensitiveName.test(name);
  if (typeof field === "string" && field !== "" && isSensitive) return redacted;
  return redactValue(field);
}

/** A list of `{ name, value }`, of `NAME=value`, or a map. References to Secrets and ConfigMaps stay. */
function redactVariables(field: JsonValue): JsonValue {
  if (Array.isArray(field)) {
    return field.map((item) => {
      if (typeof item === "string") return item.replace(/=.*$/s, `=${redacted}`);
      return isJsonObject(item) && typeof item["value"] === "string" ? { ...item, value: redacted } : redactValue(item);
    });
  }
  if (!isJsonObject(field)) return redactValue(field);
  return Object.fromEntries(
    Object.entries(field).map(([key, value]) => [key, typeof value === "string" ? redacted : redactValue(value)]),
  );
}

/** Whether an item of a command line is the value of the flag before it: `--password`, `x`. */
function isArgumentOf(previous: JsonValue | undefined, item: JsonValue): boolean {
  return (
    typeof previous === "string" && typeof item === "string" && /^--?[\w-]+$/.test(previous) && sensitiveName.test(previous)
  );
}
