import { readdir, readFile, stat } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseAllDocuments, stringify } from "yaml";
import { findMistakes } from "../commands/find-mistakes.ts";
import { TestFileError } from "../commands/test-files.ts";
import { convertChainsaw, isChainsawTest } from "./chainsaw.ts";
import { convertKuttl, isKuttlFile } from "./kuttl.ts";
import { ConversionError } from "./problem-list.ts";
import type { ConversionOptions, ConvertedTest, SourceFile, TestSource } from "./source-files.ts";

/** A converted test as YAML, with what could not be converted in comments. */
export interface ImportedTest extends ConvertedTest {
  readonly name: string;
  readonly yaml: string;
}

/** Converts the tests of chainsaw and kuttl in files and directories (recursively). **Errors**: a `TestFileError` if a file cannot be read. */
export async function convertTests(paths: readonly string[], options: ConversionOptions): Promise<readonly ImportedTest[]> {
  const tests: ConvertedTest[] = [];
  for (const path of paths) tests.push(...(await convertPath(path, options)));
  const names = new Set<string>();
  return tests.map((test) => {
    const { name } = test.test["metadata"] as { readonly name: string };
    let unique = name;
    for (let count = 2; names.has(unique); count++) unique = `${name}-${count}`;
    names.add(unique);
    return imported(test, unique);
  });
}

function imported(converted: ConvertedTest, name: string): ImportedTest {
  const test = { ...converted.test, metadata: { name } };
  const text = stringify(test, { lineWidth: 0, aliasDuplicateObjects: false });
  const { steps } = converted.test["spec"] as { readonly steps: readonly unknown[] };
  const { mistakes } =
    steps.length === 0 ? { mistakes: [] } : findMistakes({ source: converted.path, content: text }, "default");
  const problems = [...converted.problems, ...mistakes.map(({ message }) => `the converted test is invalid: ${message}`)];
  const comments = [
    `Converted from ${converted.path}.`,
    ...(problems.length === 0 ? [] : ["Not converted:", ...problems.map((each) => `- ${each}`)]),
    ...(converted.remarks.length === 0 ? [] : ["Differences:", ...converted.remarks.map((each) => `- ${each}`)]),
  ];
  const lines = comments.flatMap((each) => each.split("\n")).map((line) => `# ${line}\n`);
  return { ...converted, name, problems, yaml: `${lines.join("")}${text}` };
}

async function convertPath(path: string, options: ConversionOptions): Promise<readonly ConvertedTest[]> {
  const { isFolder, entries } = await entriesOf(path);
  if (!isFolder) return convertFile(path, documentsOf(path, await textOf(path)), options);
  const tests: ConvertedTest[] = [];
  const steps: SourceFile[] = [];
  for (const entry of entries) {
    const at = join(path, entry.name);
    if (entry.isFolder) tests.push(...(await convertPath(at, options)));
    else if (/\.ya?ml$/.test(entry.name)) {
      const text = await textOf(at);
      // Files next to a test may be templates of other tools.
      const isTest = text.includes("chainsaw.kyverno.io/");
      const { documents, error } = isTest ? { documents: documentsOf(at, text) } : unlessInvalid(at, text);
      tests.push(...convertFile(at, documents, options));
      if (isKuttlFile(entry.name)) steps.push({ name: entry.name, documents, ...(error === undefined ? {} : { error }) });
    }
  }
  const hasOwn = tests.some((test) => dirname(test.path) === path);
  return steps.length === 0 || hasOwn ? tests : [...tests, convertKuttl(path, steps, options)];
}

function convertFile(path: string, documents: readonly unknown[], options: ConversionOptions): readonly ConvertedTest[] {
  const source: TestSource = { path, read: (file) => readDocuments(join(dirname(path), file)) };
  return documents.filter(isChainsawTest).map((document) => convertChainsaw(document, source, options));
}

/** The documents of a file that an operation names; undefined if it cannot be read. **Errors**: a {@link ConversionError} if it is not valid YAML. */
function readDocuments(path: string): readonly unknown[] | undefined {
  const text = unlessUnreadable(path);
  if (text === undefined) return undefined;
  const { documents, error } = unlessInvalid(path, text);
  if (error !== undefined) throw new ConversionError(error);
  return documents;
}

function unlessUnreadable(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // The operation that names the file reports it.
    return undefined;
  }
}

async function entriesOf(path: string) {
  try {
    if (!(await stat(path)).isDirectory()) return { isFolder: false, entries: [] };
    const entries = await readdir(path, { withFileTypes: true });
    const sorted = entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return { isFolder: true, entries: sorted.map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() })) };
  } catch (error) {
    throw new TestFileError(`${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new TestFileError(`${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** The documents of a YAML text. `<<` merges, as in the parser of chainsaw. **Errors**: a `TestFileError`. */
function documentsOf(path: string, text: string): readonly unknown[] {
  return parseAllDocuments(text, { merge: true }).map((document): unknown => {
    const [error] = document.errors;
    if (error !== undefined) throw new TestFileError(`${path}: ${error.message}`, { cause: error });
    return document.toJS({ maxAliasCount: 100 });
  });
}

function unlessInvalid(path: string, text: string): { readonly documents: readonly unknown[]; readonly error?: string } {
  try {
    return { documents: documentsOf(path, text) };
  } catch (error) {
    if (error instanceof TestFileError) return { documents: [], error: error.message.split("\n", 1)[0] ?? "" };
    throw error;
  }
}
