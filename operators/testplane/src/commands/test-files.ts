import { readFile } from "node:fs/promises";
import { isJsonObject } from "@keelson/api-machinery";
import { parseAllDocuments } from "yaml";
import type { IntegrationTest } from "../api/integration-test.ts";
import type { LoadTest } from "../api/load-test.ts";
import { group, version } from "../api/names.ts";

/** A test in a file. */
export type TestManifest =
  | {
      readonly kind: "IntegrationTest";
      readonly name: string;
      readonly namespace: string | undefined;
      readonly spec: IntegrationTest["spec"];
      readonly labels: Record<string, string>;
    }
  | {
      readonly kind: "LoadTest";
      readonly name: string;
      readonly namespace: string | undefined;
      readonly spec: LoadTest["spec"];
      readonly labels: Record<string, string>;
    };

/** A file that cannot be run. The message names the position and the reason. */
export class TestFileError extends Error {
  override readonly name = "TestFileError";
  readonly code = "BadTestFile";
}

/** Reads the tests of a YAML file. */
export async function readTests(file: string): Promise<readonly TestManifest[]> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    throw new TestFileError(`${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  const tests = parseTests(text, file);
  if (tests.length === 0) throw new TestFileError(`${file}: contains no test`);
  return tests;
}

/** Parses the tests of a YAML text. */
export function parseTests(text: string, file: string): readonly TestManifest[] {
  const tests: TestManifest[] = [];
  for (const [index, document] of parseAllDocuments(text).entries()) {
    const position = `${file}, document ${index + 1}`;
    const [error] = document.errors;
    if (error !== undefined) throw new TestFileError(`${position}: ${error.message}`);
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    if (value === null || value === undefined) continue;
    if (!isJsonObject(value)) throw new TestFileError(`${position}: must be an object`);
    const { kind, apiVersion, metadata, spec } = value;
    if (apiVersion !== `${group}/${version}` || (kind !== "IntegrationTest" && kind !== "LoadTest")) {
      throw new TestFileError(
        `${position}: ${String(kind)} of ${String(apiVersion)} is not a test; apply it first (kubectl apply -f), or use it as the resource of a step`,
      );
    }
    if (!isJsonObject(metadata) || typeof metadata["name"] !== "string")
      throw new TestFileError(`${position}: metadata.name: required`);
    const { name, namespace, labels } = metadata;
    tests.push({
      kind,
      name,
      namespace: typeof namespace === "string" ? namespace : undefined,
      spec: spec as never,
      labels: isJsonObject(labels) ? (labels as Record<string, string>) : {},
    });
  }
  return tests;
}
