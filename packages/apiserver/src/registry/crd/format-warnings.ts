import { isJsonObject } from "@keelson/api-machinery";
import { listAt, valueAt } from "../object-fields.ts";

/** Formats of texts that Kubernetes validates, without dashes. Others are ignored. */
const knownFormats: ReadonlySet<string> = new Set([
  ...[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
  ],
  ...["isbn", "isbn10", "isbn13", "k8slongname", "k8sshortname", "mac", "password", "rgbcolor", "ssn", "uri"],
  ...["uuid", "uuid3", "uuid4", "uuid5"],
]);

/** Warnings about formats in the schemas of a CRD that have no effect and that the schemas of `old` do not have. */
export function formatWarnings(crd: unknown, old?: unknown): readonly string[] {
  const known = new Set(old === undefined ? [] : unknownFormats(old));
  return unknownFormats(crd)
    .filter((format) => !known.has(format))
    .map((format) => `unrecognized format ${JSON.stringify(format)}`);
}

function unknownFormats(crd: unknown): readonly string[] {
  const found = new Set<string>();
  const pending: unknown[] = listAt(crd, "spec", "versions").map((version) => valueAt(version, "schema", "openAPIV3Schema"));
  for (let schema = pending.pop(); pending.length > 0 || schema !== undefined; schema = pending.pop()) {
    if (!isJsonObject(schema)) continue;
    const { type, format, properties, items, additionalProperties, not } = schema;
    if (type === "string" && typeof format === "string" && format !== "" && !knownFormats.has(format.replaceAll("-", ""))) {
      found.add(format);
    }
    pending.push(items, additionalProperties, not);
    if (isJsonObject(properties)) pending.push(...Object.values(properties));
    for (const list of [schema["allOf"], schema["anyOf"], schema["oneOf"]]) if (Array.isArray(list)) pending.push(...list);
  }
  return [...found];
}
