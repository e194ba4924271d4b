import { readFile } from "node:fs/promises";
import { isJsonObject } from "@keelson/api-machinery";
import { parseAllDocuments } from "yaml";
import type { IntegrationTest } from "../api/integration-test.ts";
import type { LoadTest } from "../api/load-test.ts";
import { group, version } from "../api/names.ts";

/** A test out of a file. */
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

/** A file that cannot be run; the message says where and why. */
export class TestFileError extends Error {
  override readonly name = "TestFileError";
  readonly code = "BadTestFile";
}

/** The tests of a file of YAML documents. */
export async function readTests(file: string): Promise<readonly TestManifest[]> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    throw new TestFileError(`${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  const tests = parseTests(text, file);
  if (tests.length === 0) throw new TestFileError(`${file}: there is no test in it`);
  return tests;
}

/** As {@link readTests}, of a text. */
export function parseTests(text: string, file: string): readonly TestManifest[] {
  const tests: TestManifest[] = [];
  for (const [index, document] of parseAllDocuments(text).entries()) {
    const place = `${file}, document ${index + 1}`;
    const [fault] = document.errors;
    if (fault !== undefined) throw new TestFileError(`${place}: ${fault.message}`);
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    if (value === null || value === undefined) continue;
    if (!isJsonObject(value)) throw new TestFileError(`${place}: is no object`);
    const { kind, apiVersion, metadata, spec } = value;
    if (apiVersion !== `${group}/${version}` || (kind !== "IntegrationTest" && kind !== "LoadTest")) {
      throw new TestFileError(
        `${place}: a ${String(kind)} of ${String(apiVersion)} is no test; apply it first (kubectl apply -f), or make it a step's resource`,
      );
    }
    if (!isJsonObject(metadata) || typeof metadata["name"] !== "string")
      throw new TestFileError(`${place}: metadata.name is missing`);
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
