import type * as Yaml from "yaml";

/** Limits of {@link yamlToJson}. */
export interface YamlLimits {
  readonly maxDepth: number;
  readonly maxValues: number;
}

/** The JSON text of a YAML document, or the reason why it was rejected. */
export type YamlResult =
  | { readonly kind: "parsed"; readonly json: string; readonly duplicateKeys: readonly string[] }
  | { readonly kind: "invalid"; readonly reason: string }
  | { readonly kind: "too-deep" }
  | { readonly kind: "too-many-values" };

/**
 * Converts YAML to JSON within limits. The lexer runs first, since it can reject a document without building it. Must be self-contained:
 * its source text is also the program of the YAML worker.
 */
// oxlint-disable-next-line max-lines-per-function -- must be self-contained
export function yamlToJson(yaml: typeof Yaml, text: string, limits: YamlLimits): YamlResult {
  const { maxDepth, maxValues } = limits;
  let values = 0;
  let flowDepth = 0;
  let indicatorsOnLine = 0;
  for (const token of new yaml.Lexer().lex(text)) {
    const first = token[0] ?? "";
    if (first === "\n" || first === "\r") indicatorsOnLine = 0;
    if (first === " " || first === "\n" || first === "\r" || first === "#") continue;
    if (++values > 4 * maxValues) return { kind: "too-many-values" };
    if (first === "[" || first === "{") flowDepth++;
    else if (first === "]" || first === "}") flowDepth--;
    else if (token === "-" || token === "?") indicatorsOnLine++;
    else if (first === "&" && ++indicatorsOnLine > maxDepth) return { kind: "too-deep" };
    if (flowDepth > maxDepth || indicatorsOnLine > maxDepth) return { kind: "too-deep" };
  }
  const duplicateKeys: string[] = [];
  const lines = new yaml.LineCounter();
  /** Kubernetes warns about duplicate keys, which the parser would reject. */
  const findDuplicates = (node: unknown, depth: number): void => {
    if (depth > maxDepth || duplicateKeys.length >= 100) return;
    if (yaml.isSeq(node)) for (const item of node.items) findDuplicates(item, depth + 1);
    if (!yaml.isMap(node)) return;
    const seen = new Set<string>();
    for (const { key, value: child } of node.items) {
      const name = String(yaml.isScalar(key) ? key.value : key);
      if (seen.has(name)) {
        const { line } = lines.linePos(yaml.isScalar(key) ? (key.range?.[0] ?? 0) : 0);
        duplicateKeys.push(`line ${line}: key ${JSON.stringify(name)} already set in map`);
      }
      seen.add(name);
      findDuplicates(child, depth + 1);
    }
  };
  let count = 0;
  /** Rejects values that JSON cannot represent, and aliases that expand to too many values. */
  const problemOf = (value: unknown, depth: number): YamlResult | undefined => {
    if (depth > maxDepth) return { kind: "too-deep" };
    if (++count > maxValues) return { kind: "too-many-values" };
    if (typeof value === "number" && !Number.isFinite(value)) {
      return { kind: "invalid", reason: `JSON cannot represent the number ${value}` };
    }
    if (typeof value !== "object" || value === null) return undefined;
    for (const child of Object.values(value)) {
      const problem = problemOf(child, depth + 1);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
  /** Kubernetes reads plain scalars like YAML 1.1: `yes` and `off` are booleans, `0644` is octal, and digits may have underscores. */
  const booleans: Yaml.ScalarTag = {
    tag: "tag:yaml.org,2002:bool",
    default: true,
    test: /^(?:[yY]|[yY]es|YES|[oO]n|ON|[nN]|[nN]o|NO|[oO]ff|OFF)$/,
    resolve: (scalar) => /^(?:y|on)/i.test(scalar),
  };
  const integers: Yaml.ScalarTag = {
    tag: "tag:yaml.org,2002:int",
    default: true,
    test: /^[-+]?(?:0[0-7_]+|0b[01_]+|[1-9][0-9]*_[0-9_]*)$/,
    resolve(scalar) {
      const [, sign = "", digits = ""] = /^([-+]?)(.*)$/.exec(scalar.replaceAll("_", "")) ?? [];
      const value = /^0[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : Number(digits);
      return sign === "-" ? -value : value;
    },
  };
  try {
    // Like kube-apiserver, reads the first document of several.
    const documents = yaml.parseAllDocuments(text, {
      merge: true,
      prettyErrors: false,
      strict: true,
      uniqueKeys: false,
      lineCounter: lines,
      customTags: (tags) => [booleans, integers, ...tags],
    });
    const document = documents[0];
    if (document === undefined) return { kind: "parsed", json: "null", duplicateKeys };
    const [error] = document.errors;
    if (error !== undefined) return { kind: "invalid", reason: error.message };
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    const problem = problemOf(value, 0);
    if (problem !== undefined) return problem;
    findDuplicates(document.contents, 0);
    return { kind: "parsed", json: JSON.stringify(value) ?? "null", duplicateKeys };
  } catch (error) {
    if (error instanceof RangeError) return { kind: "too-deep" };
    return { kind: "invalid", reason: error instanceof Error ? error.message : String(error) };
  }
}
