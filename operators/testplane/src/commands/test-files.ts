import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { isJsonObject } from "@keelson/api-machinery";
import { type Document, parseAllDocuments } from "yaml";
import type { IntegrationTest } from "../api/integration-test.ts";
import type { LoadTest } from "../api/load-test.ts";
import { group, version } from "../api/names.ts";

interface Manifest {
  readonly name: string;
  readonly namespace: string | undefined;
  readonly labels: Record<string, string>;
  /** Annotations to create the test with. Those of files are ignored. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** The object that the test is created from, if it exists only in the cluster. */
  readonly original?: Readonly<Record<string, unknown>>;
  /** File and document of the test. */
  readonly source: string;
}

/** A test in a file. */
export type TestManifest =
  | (Manifest & { readonly kind: "IntegrationTest"; readonly spec: IntegrationTest["spec"] })
  | (Manifest & { readonly kind: "LoadTest"; readonly spec: LoadTest["spec"] });

/** The tests of some files, and the other objects in them. */
export interface TestFiles {
  readonly tests: readonly TestManifest[];
  /** Objects that are not tests, such as `files.yaml, document 2: Pod of v1`. */
  readonly ignored: readonly string[];
}

/** A file that cannot be run. The message names the position and the reason. */
export class TestFileError extends Error {
  override readonly name = "TestFileError";
  readonly code = "BadTestFile";
}

/** Reads the tests of files, of directories (recursively), and of standard input for `-`. **Errors**: a {@link TestFileError}. */
export async function readTests(paths: readonly string[], stdin: NodeJS.ReadableStream): Promise<TestFiles> {
  const tests: TestManifest[] = [];
  const ignored: string[] = [];
  for (const { source, content } of await readSources(paths, stdin)) {
    const found = parseTests(content, source);
    tests.push(...found.tests);
    ignored.push(...found.ignored);
  }
  if (tests.length > 0) return { tests, ignored };
  const [first] = ignored;
  const hint =
    first === undefined ? "" : `; ${first} is not a test: apply it with kubectl, or use it as the resource of a step`;
  throw new TestFileError(`${paths.join(", ")}: contains no test${hint}`);
}

/** A text with manifests. */
export interface ManifestSource {
  /** Path of the file, or `standard input`. */
  readonly source: string;
  readonly content: string;
}

/** Reads files, the manifests in directories (recursively), and standard input for `-`. **Errors**: a {@link TestFileError}. */
export async function readSources(paths: readonly string[], stdin: NodeJS.ReadableStream): Promise<readonly ManifestSource[]> {
  const sources: ManifestSource[] = [];
  for (const path of paths) {
    if (path === "-") sources.push({ source: "standard input", content: await text(stdin) });
    else {
      for (const file of await manifestFiles(path))
        sources.push({ source: file, content: await access(file, () => readFile(file, "utf8")) });
    }
  }
  return sources;
}

/** The file itself, or the manifests in a directory in alphabetical order. */
async function manifestFiles(path: string): Promise<readonly string[]> {
  if (!(await access(path, () => stat(path))).isDirectory()) return [path];
  const files = await readdir(path, { recursive: true });
  return files
    .filter((file) => /\.(ya?ml|json)$/.test(file))
    .sort()
    .map((file) => join(path, file));
}

async function access<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw new TestFileError(`${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** Parses the tests of a YAML text, including those in Lists. */
export function parseTests(yaml: string, file: string): TestFiles {
  const tests: TestManifest[] = [];
  const ignored: string[] = [];
  for (const [index, document] of parseAllDocuments(yaml, { merge: true }).entries()) {
    const source = `${file}, document ${index + 1}`;
    const [error] = document.errors;
    if (error !== undefined) throw new TestFileError(`${source}: ${error.message}`, { cause: error });
    const value = valueOf(document, source);
    if (value === null || value === undefined) continue;
    const items = isJsonObject(value) && value["kind"] === "List" && Array.isArray(value["items"]) ? value["items"] : [value];
    for (const item of items) {
      const test = parseTest(item, source);
      if (typeof test === "string") ignored.push(test);
      else tests.push(test);
    }
  }
  return { tests, ignored };
}

/** The value of a document. A merge key may name no map, and aliases may expand too far. */
function valueOf(document: Document.Parsed, source: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 }) as unknown;
  } catch (error) {
    throw new TestFileError(`${source}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** A test, or the name of another object. */
function parseTest(value: unknown, source: string): TestManifest | string {
  if (!isJsonObject(value)) throw new TestFileError(`${source}: must be an object`);
  const { kind, apiVersion, metadata, spec } = value;
  if (apiVersion !== `${group}/${version}` || (kind !== "IntegrationTest" && kind !== "LoadTest")) {
    return `${source}: ${String(kind)} of ${String(apiVersion)}`;
  }
  if (!isJsonObject(metadata) || typeof metadata["name"] !== "string")
    throw new TestFileError(`${source}: metadata.name: required`);
  const { name, namespace, labels } = metadata;
  return {
    kind,
    name,
    source,
    namespace: typeof namespace === "string" ? namespace : undefined,
    spec: spec as never,
    labels: isJsonObject(labels) ? (labels as Record<string, string>) : {},
  };
}
