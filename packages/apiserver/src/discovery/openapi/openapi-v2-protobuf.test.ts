import { describe, expect, it } from "vitest";
import { readFields } from "../../http/protobuf/wire-format.ts";
import { encodeOpenApiV2 } from "./openapi-v2-protobuf.ts";

/** What is under the field numbers of `path`, in order: nested messages are descended into. */
function fieldsAt(bytes: Uint8Array, ...path: readonly number[]): { readonly text: string; readonly integer: number }[] {
  const [number, ...rest] = path;
  return [...readFields(bytes)]
    .filter((field) => field.number === number)
    .flatMap((field) =>
      rest.length === 0
        ? [{ text: Buffer.from(field.bytes).toString("utf8"), integer: field.integer }]
        : fieldsAt(field.bytes, ...rest),
    );
}

const textsAt = (bytes: Uint8Array, ...path: readonly number[]): string[] => fieldsAt(bytes, ...path).map(({ text }) => text);

/** A document of one schema; the numbers lead to that schema. */
function encodeSchema(schema: object): Uint8Array {
  return encodeOpenApiV2({ definitions: { "a.B": schema } });
}
const toSchema = [9, 1, 2] as const;

describe("an OpenAPI document in protobuf", () => {
  it("names its schemas and what they refer to", () => {
    const bytes = encodeSchema({
      type: "object",
      description: "é",
      required: ["x", "y"],
      properties: {
        x: { $ref: "#/definitions/c.D" },
        y: { type: "array", items: { type: "integer" } },
        z: { additionalProperties: { type: "string" } },
      },
    });
    expect(textsAt(bytes, 9, 1, 1)).toEqual(["a.B"]);
    expect(textsAt(bytes, ...toSchema, 4)).toEqual(["é"]);
    expect(textsAt(bytes, ...toSchema, 19)).toEqual(["x", "y"]);
    expect(textsAt(bytes, ...toSchema, 22, 1)).toEqual(["object"]);
    expect(textsAt(bytes, ...toSchema, 25, 1, 1)).toEqual(["x", "y", "z"]);
    expect(textsAt(bytes, ...toSchema, 25, 1, 2, 1)).toEqual(["#/definitions/c.D"]);
    expect(textsAt(bytes, ...toSchema, 25, 1, 2, 23, 1, 22, 1)).toEqual(["integer"]);
    expect(textsAt(bytes, ...toSchema, 25, 1, 2, 21, 1, 22, 1)).toEqual(["string"]);
  });

  it("has extensions, defaults and enums as the YAML that gnostic keeps", () => {
    const bytes = encodeSchema({ default: [1], enum: ["a", "b"], "x-kubernetes-patch-merge-key": "name", unknownWord: 1 });
    expect(textsAt(bytes, ...toSchema, 5, 2)).toEqual(["[1]"]);
    expect(textsAt(bytes, ...toSchema, 20, 2)).toEqual(['"a"', '"b"']);
    expect(textsAt(bytes, ...toSchema, 31, 1)).toEqual(["x-kubernetes-patch-merge-key"]);
    expect(textsAt(bytes, ...toSchema, 31, 2, 2)).toEqual(['"name"']);
  });

  it("writes bounds as doubles, lengths as integers, and true and false", () => {
    const bytes = encodeSchema({
      maximum: -1.5,
      maxLength: 300,
      minLength: -1,
      uniqueItems: true,
      additionalProperties: false,
    });
    const [maximum] = [...readFields(bytes)]
      .flatMap(({ bytes: definitions }) => [...readFields(definitions)])
      .flatMap(({ bytes: entry }) => [...readFields(entry)].filter(({ number }) => number === 2))
      .flatMap(({ bytes: schema }) => [...readFields(schema)].filter(({ number }) => number === 7));
    expect(Buffer.from(maximum?.bytes ?? []).readDoubleLE()).toBe(-1.5);
    expect(fieldsAt(bytes, ...toSchema, 11)[0]?.integer).toBe(300);
    expect(fieldsAt(bytes, ...toSchema, 12)[0]?.integer).toBe(-1);
    expect(fieldsAt(bytes, ...toSchema, 16)[0]?.integer).toBe(1);
    expect(fieldsAt(bytes, ...toSchema, 21, 2)[0]?.integer).toBe(0);
  });

  it("describes the kind, the parameters and the responses of a path", () => {
    const bytes = encodeOpenApiV2({
      paths: {
        "/api/v1/things/{name}": {
          patch: {
            consumes: ["application/merge-patch+json"],
            parameters: [
              { name: "body", in: "body", required: true, schema: { $ref: "#/definitions/P" } },
              { name: "force", in: "query", type: "boolean" },
            ],
            responses: { "200": { description: "OK", schema: { $ref: "#/definitions/T" } } },
            "x-kubernetes-group-version-kind": { group: "", kind: "Thing", version: "v1" },
          },
          parameters: [{ name: "name", in: "path", required: true, type: "string" }],
        },
      },
    });
    const patch = [8, 2, 2, 8] as const;
    expect(textsAt(bytes, 8, 2, 1)).toEqual(["/api/v1/things/{name}"]);
    expect(textsAt(bytes, ...patch, 7)).toEqual(["application/merge-patch+json"]);
    expect(textsAt(bytes, ...patch, 8, 1, 1, 5, 1)).toEqual(["#/definitions/P"]);
    expect(textsAt(bytes, ...patch, 8, 1, 2, 3, 4)).toEqual(["force"]);
    expect(textsAt(bytes, 8, 2, 2, 9, 1, 2, 4, 4)).toEqual(["name"]);
    expect(textsAt(bytes, ...patch, 9, 1, 1)).toEqual(["200"]);
    expect(textsAt(bytes, ...patch, 9, 1, 2, 1, 2, 1, 1)).toEqual(["#/definitions/T"]);
    expect(textsAt(bytes, ...patch, 13, 2, 2)).toEqual(['{"group":"","kind":"Thing","version":"v1"}']);
  });

  it("has the operations of a proxy, with tags and schemes", () => {
    const operation = (operationId: string): object => ({ operationId, tags: ["core_v1"], schemes: ["https"] });
    const bytes = encodeOpenApiV2({
      paths: { "/proxy": { options: operation("a"), head: operation("b"), delete: operation("c") } },
    });
    expect(textsAt(bytes, 8, 2, 2, 6, 5)).toEqual(["a"]);
    expect(textsAt(bytes, 8, 2, 2, 7, 5)).toEqual(["b"]);
    expect(textsAt(bytes, 8, 2, 2, 5, 5)).toEqual(["c"]);
    expect(textsAt(bytes, 8, 2, 2, 7, 1)).toEqual(["core_v1"]);
    expect(textsAt(bytes, 8, 2, 2, 7, 10)).toEqual(["https"]);
  });
});
