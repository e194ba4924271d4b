import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { applyDefaults } from "./default.ts";
import { completeObjectSchema } from "./object-meta.ts";
import { prune } from "./prune.ts";
import type { Schema } from "./schema.ts";
import { validateStructural } from "./structural.ts";
import { validate } from "./validate.ts";

interface Recorded {
  readonly schemas: readonly Schema[];
  readonly objects: readonly {
    readonly name: string;
    /** Index into `schemas`. */
    readonly schema: number;
    readonly object: Record<string, unknown>;
    readonly status: number;
    readonly stored?: Record<string, unknown>;
    readonly message?: string;
    readonly causes?: readonly { readonly field: string; readonly reason: string; readonly message: string }[];
  }[];
  readonly invalidSchemas: readonly {
    readonly name: string;
    readonly schema: unknown;
    readonly causes: readonly { readonly field: string; readonly reason: string }[];
  }[];
}

/** Custom resources and CRDs with the responses of a kube-apiserver 1.20. */
const recorded = JSON.parse(readFileSync(new URL("testdata/recorded-schemas.json", import.meta.url), "utf8")) as Recorded;

/** Reasons that newer versions distinguish. */
const reasonClasses: Readonly<Record<string, string>> = {
  FieldValueTypeInvalid: "FieldValueInvalid",
  FieldValueTooLong: "FieldValueInvalid",
  FieldValueTooMany: "FieldValueInvalid",
};

const withoutIndexes = (field = "") => field.replaceAll(/\[\d+\]/g, "");
const byField = (a: { field: string }, b: { field: string }) => (a.field < b.field ? -1 : 1);

function admit(schema: Schema, object: Record<string, unknown>) {
  const value = structuredClone(prune(completeObjectSchema(schema), object).value);
  applyDefaults(schema, value);
  return { value, causes: validate(schema, value) };
}

const accepted = recorded.objects.filter(({ stored }) => stored !== undefined);
const refused = recorded.objects.filter(({ causes, message }) => causes && message && !message.includes("<nil>"));
const refusedByLogic = recorded.objects.filter(({ message }) => message?.includes("<nil>"));

test.each(accepted)("stores as recorded: $name", ({ schema, object, stored }) => {
  const { value, causes } = admit(recorded.schemas[schema] ?? {}, object);
  expect(causes).toEqual([]);
  // The status is dropped by the server's create, not by the schema.
  expect({ ...value, status: undefined }).toEqual({ ...stored, status: undefined });
});

test.each(refused)("rejects as recorded: $name", ({ schema, object, causes = [], message = "" }) => {
  const actual = admit(recorded.schemas[schema] ?? {}, object).causes;
  expect(actual.length).toBeGreaterThan(0);
  const classes = actual.map(({ field, reason = "" }) => ({
    field: withoutIndexes(field),
    reason: reasonClasses[reason] ?? reason,
  }));
  const wanted = causes.map(({ field, reason }) => ({ field: withoutIndexes(field), reason }));
  // Some recordings lack causes; their messages still contain the fields.
  const fields = wanted.length > 0 ? undefined : classes.filter(({ field }) => message.includes(`${field}:`));
  expect(classes.toSorted(byField)).toEqual((fields ?? wanted).toSorted(byField));
});

test.each(refusedByLogic)("rejects as recorded: $name", ({ schema, object, message = "" }) => {
  const lines = admit(recorded.schemas[schema] ?? {}, object).causes.map((cause) => `${cause.field}: ${cause.message}`);
  const parts = message.replace(/^\[|\]$/g, "").split(/, (?=spec|<nil>)/);
  expect(lines.toSorted()).toEqual(parts.toSorted());
});

test.each(recorded.invalidSchemas)("rejects the schema as recorded: $name", ({ schema, causes }) => {
  const prefix = "spec.validation.openAPIV3Schema";
  const actual = validateStructural(schema as Schema, prefix).map(({ field = "", reason = "" }) => ({
    field,
    reason: reasonClasses[reason] ?? reason,
  }));
  expect(actual.toSorted(byField)).toEqual(causes.toSorted(byField));
});

test("accepts only structural schemas", () => {
  for (const schema of recorded.schemas) expect(validateStructural(schema)).toEqual([]);
});
