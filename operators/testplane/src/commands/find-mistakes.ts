import { isJsonObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { prune, validate } from "@keelson/api-machinery/schema-checks";
import { type Document, isMap, isScalar, LineCounter, parseAllDocuments } from "yaml";
import { IntegrationTest } from "../api/integration-test.ts";
import { LoadTest } from "../api/load-test.ts";
import { group, version } from "../api/names.ts";
import { suggestion } from "../functions/closest-name.ts";
import { type Path, pathText } from "../manifests/object-faults.ts";
import { validateIntegrationTest } from "../manifests/validate-integration-test.ts";
import { validateLoadTest } from "../manifests/validate-load-test.ts";
import { type KindSchemas, validateKnownKinds } from "../manifests/validate-known-kinds.ts";
import type { ManifestSource } from "./test-files.ts";

/** A mistake in a file. */
export interface Mistake {
  readonly source: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** What was found in a file. */
export interface Findings {
  readonly mistakes: readonly Mistake[];
  /** Number of tests in the file. */
  readonly tests: number;
}

/**
 * Finds every mistake in the tests of a file, in the order of their positions. Nothing is sent to an API server. `schemaOf` has the schemas
 * that manifests of other kinds are checked against. Default: none.
 */
export function findMistakes(
  { source, content }: ManifestSource,
  defaultNamespace: string,
  schemaOf: KindSchemas = () => undefined,
): Findings {
  const lines = new LineCounter();
  const mistakes: Mistake[] = [];
  let tests = 0;
  for (const document of parseAllDocuments(content, { lineCounter: lines, merge: true })) {
    const at = (offset: number, message: string): void => {
      const { line, col } = lines.linePos(offset);
      mistakes.push({ source, line, column: col, message });
    };
    for (const error of document.errors) at(error.pos[0], error.message.split("\n", 1)[0] ?? "");
    if (document.errors.length > 0) continue;
    let found: readonly FoundTest[];
    try {
      found = testsOf(document);
    } catch (error) {
      // A merge key names no map, or aliases expand too far.
      at(document.contents?.range?.[0] ?? 0, error instanceof Error ? error.message : String(error));
      continue;
    }
    for (const { value, prefix } of found) {
      tests++;
      for (const error of errorsOf(value, defaultNamespace)) at(offsetOf(document, [...prefix, ...pathOf(error)]), error);
      for (const { path, message } of validateKnownKinds(value, schemaOf))
        at(offsetOf(document, [...prefix, ...path]), `${pathText(path)}: ${message}`);
    }
  }
  return { mistakes: mistakes.toSorted((a, b) => a.line - b.line || a.column - b.column), tests };
}

interface FoundTest {
  readonly value: Readonly<Record<string, unknown>>;
  /** Path of the test within its document. */
  readonly prefix: Path;
}

function testsOf(document: Document): readonly FoundTest[] {
  const value: unknown = document.toJS({ maxAliasCount: 100 });
  const items: readonly FoundTest[] =
    isJsonObject(value) && value["kind"] === "List" && Array.isArray(value["items"])
      ? value["items"].flatMap((item: unknown, index) =>
          isJsonObject(item) ? [{ value: item, prefix: ["items", index] }] : [],
        )
      : isJsonObject(value)
        ? [{ value, prefix: [] }]
        : [];
  return items.filter(
    ({ value: { apiVersion, kind } }) => apiVersion === `${group}/${version}` && kindsByName.has(String(kind)),
  );
}

const kindsByName = new Map([IntegrationTest, LoadTest].map((type) => [type.kind, type]));

/** Errors of a test, each starting with the path of its field. */
function errorsOf(test: Readonly<Record<string, unknown>>, defaultNamespace: string): readonly string[] {
  const type = kindsByName.get(String(test["kind"]));
  const schema = type?.crd.spec.versions[0]?.schema?.openAPIV3Schema as Schema | undefined;
  if (schema === undefined) return [];
  const errors: string[] = [];
  const metadata = isJsonObject(test["metadata"]) ? test["metadata"] : {};
  if (typeof metadata["name"] !== "string") errors.push("metadata.name: required");
  const { metadata: _, ...own } = test;
  for (const path of prune(schema, own).unknown) errors.push(`${path}: unknown field${similarField(schema, path)}`);
  for (const { field, message } of validate(schema, own)) errors.push(`${field}: ${message}`);
  if (errors.length > 0) return errors;
  const namespace = typeof metadata["namespace"] === "string" ? metadata["namespace"] : defaultNamespace;
  const spec = test["spec"] as never;
  return test["kind"] === "LoadTest" ? validateLoadTest(spec, namespace) : validateIntegrationTest(spec, namespace);
}

/** `; did you mean data?` if a field of the schema has a similar name. */
function similarField(schema: Schema, path: string): string {
  const steps = pathOf(path);
  let parent: Schema | undefined = schema;
  for (const step of steps.slice(0, -1)) parent = typeof step === "number" ? parent?.items : parent?.properties?.[step];
  return suggestion(String(steps.at(-1)), Object.keys(parent?.properties ?? {}));
}

/** The path at the start of an error: `spec.steps[0].name: required`. */
function pathOf(error: string): Path {
  const [text = ""] = /^[A-Za-z_$][\w-]*(\.[\w-]+|\[\d+\])*/.exec(error) ?? [];
  return [...text.matchAll(/([\w$-]+)/g)].map(([part]) => (/^\d+$/.test(part) ? Number(part) : part));
}

/** Where a field is in the file; its nearest parent if it is missing. */
function offsetOf(document: Document, path: Path): number {
  for (let length = path.length; length > 0; length--) {
    const parent: unknown = length === 1 ? document.contents : document.getIn(path.slice(0, length - 1), true);
    const last = path[length - 1];
    const pair = isMap(parent) ? parent.items.find(({ key }) => isScalar(key) && key.value === last) : undefined;
    if (pair !== undefined && isScalar(pair.key)) return pair.key.range?.[0] ?? 0;
    const node: unknown = document.getIn(path.slice(0, length), true);
    if (typeof node === "object" && node !== null && "range" in node && Array.isArray(node.range)) return Number(node.range[0]);
  }
  return document.contents?.range?.[0] ?? 0;
}
