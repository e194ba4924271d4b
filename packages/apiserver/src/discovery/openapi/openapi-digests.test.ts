import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { isJsonObject } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import { builtinKinds } from "../../registry/builtin-kinds.ts";
import { valueAt } from "../../registry/object-fields.ts";
import { noReviews } from "../../registry/testing/crd-samples.ts";
import { createDiscoveryHandler } from "../discovery-handler.ts";

/**
 * Digests of the OpenAPI v3 documents of kube-apiserver 1.35.4 without descriptions: SHA-256 of JSON with sorted keys, 10 digits, by schema and
 * path. ComponentStatuses are left out.
 */
const recorded = JSON.parse(readFileSync(new URL("../../../testdata/openapi-digests.json", import.meta.url), "utf8")) as Record<
  "paths" | "schemas",
  Record<string, string>
>;

function canonical(value: unknown, isNamed = false): unknown {
  if (Array.isArray(value)) return value.map((item) => canonical(item));
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).filter(([key, child]) => isNamed || key !== "description" || typeof child !== "string");
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, child]) => [key, canonical(child, key === "properties")]),
  );
}

const digest = (value: unknown): string =>
  createHash("sha256")
    .update(JSON.stringify(canonical(value)))
    .digest("hex")
    .slice(0, 10);

async function servedDigests(): Promise<typeof recorded> {
  const served = builtinKinds({ clock: { now: () => 0 }, reviews: noReviews });
  const registry = { list: () => served, onChange: () => () => undefined };
  const { handle } = createDiscoveryHandler(registry, { issuer: () => undefined });
  const read = async (path: string): Promise<unknown> => {
    const outcome = await handle({ method: "GET", path, headers: {}, query: {}, user: { username: "u", groups: [] } });
    return outcome?.kind === "document" ? outcome.body : undefined;
  };
  const found: typeof recorded = { paths: {}, schemas: {} };
  for (const path of Object.keys(Object(valueAt(await read("/openapi/v3"), "paths")))) {
    const document = await read(`/openapi/v3/${path}`);
    for (const [name, schema] of Object.entries(Object(valueAt(document, "components", "schemas"))))
      found.schemas[name] = digest(schema);
    for (const [name, item] of Object.entries(Object(valueAt(document, "paths")))) found.paths[name] = digest(item);
  }
  return found;
}

describe("OpenAPI v3 of the built-in kinds", () => {
  const served = servedDigests();

  it.each(["paths", "schemas"] as const)("has the %s of kube-apiserver 1.35, apart from descriptions", async (part) => {
    const found = (await served)[part];
    expect(Object.keys(recorded[part]).filter((name) => found[name] !== recorded[part][name])).toEqual([]);
  });
});
