import { readFileSync } from "node:fs";
import { isJsonObject, type JsonObject, type JsonValue } from "@keelson/api-machinery";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createSeededRandom } from "../../endpoints/random-source.ts";
import { startTestEnvironment } from "../../testing/test-environment.ts";
import { generateObject } from "../../testing/protobuf/generated-objects.ts";
import { decodeProtobuf } from "./decode.ts";
import { hasMessage, ProtobufEncoder, type TypeMeta } from "./encode.ts";
import { messageName } from "./fields.ts";

const encoder = new ProtobufEncoder();

interface Recorded {
  readonly object: JsonObject & TypeMeta;
  readonly protobuf: string;
}

/** Responses of a kube-apiserver 1.35, as JSON and as protobuf. */
function recorded<T>(file: string): T {
  return JSON.parse(readFileSync(new URL(`../../../testdata/${file}`, import.meta.url), "utf8")) as T;
}
const objects = recorded<readonly Recorded[]>("protobuf-objects.json");
const responses =
  recorded<Readonly<Record<string, { readonly json: JsonValue; readonly protobuf: string }>>>("protobuf-responses.json");
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const typeOf = (value: JsonObject): TypeMeta => ({
  apiVersion: String(value["apiVersion"] ?? ""),
  kind: String(value["kind"]),
});

/** A value without nulls, empty objects and empty lists, which JSON omits and protobuf cannot always tell from absence. */
function withoutEmpty(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withoutEmpty);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(([key, each]) => [key, withoutEmpty(each)] as const);
  return Object.fromEntries(
    entries.filter(([, each]) => each !== null && (typeof each !== "object" || Object.keys(each).length > 0)),
  );
}

describe("an object", () => {
  test.each(objects)("of a $object.apiVersion $object.kind is encoded as by kube-apiserver", ({ object, protobuf }) => {
    expect(hex(encoder.object(object, object))).toBe(Buffer.from(protobuf, "base64").toString("hex"));
    expect(withoutEmpty(decodeProtobuf(Buffer.from(protobuf, "base64")))).toEqual(withoutEmpty(object));
  });

  test("of any built-in kind is decoded to what was encoded", async () => {
    const environment = await startTestEnvironment();
    const served = environment.server.resources.list();
    await environment.stop();
    const kinds = served
      .filter(({ origin }) => origin === "builtin")
      .map(({ group, version, kind }) => ({ apiVersion: group === "" ? version : `${group}/${version}`, kind }));
    expect(kinds.filter((type) => !hasMessage(type))).toEqual([]);
    for (const type of kinds) {
      fc.assert(
        fc.property(fc.integer(), (seed) => {
          const object = generateObject(messageName(type.apiVersion, type.kind) ?? "", createSeededRandom(seed));
          const decoded = decodeProtobuf(encoder.object(object, type));
          expect(withoutEmpty(decoded)).toEqual(withoutEmpty({ ...type, ...object }));
        }),
        { numRuns: 3 },
      );
    }
  });

  test("larger than the buffer is encoded completely", () => {
    const object = { data: Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`k${index}`, "v".repeat(5_000)])) };
    const type = { apiVersion: "v1", kind: "ConfigMap" };
    expect(withoutEmpty(decodeProtobuf(encoder.object(object, type)))).toEqual({ ...type, ...object });
  });

  test("of a custom kind has no message, even in a group that begins like a built-in one", () => {
    expect(hasMessage({ apiVersion: "apps/v1", kind: "Deployment" })).toBe(true);
    expect(hasMessage({ apiVersion: "apps.example.com/v1", kind: "Deployment" })).toBe(false);
    expect(() => encoder.object({}, { apiVersion: "example.com/v1", kind: "Widget" })).toThrow(TypeError);
  });

  test("whose value does not fit its field is a TypeError, and does not affect the next one", () => {
    const type = { apiVersion: "v1", kind: "ConfigMap" };
    const before = hex(encoder.object({ data: { a: "b" } }, type));
    expect(() => encoder.object({ data: { a: "b", c: 1 } }, type)).toThrow("1 is not a string");
    expect(hex(encoder.object({ data: { a: "b" } }, type))).toBe(before);
  });
});

describe("a response of kube-apiserver", () => {
  const one = Object.entries(responses).filter(([name]) => !/list|watch/.test(name));
  test.each(one)("with a %s is the same", (_, { json, protobuf }) => {
    const object = isJsonObject(json) ? json : {};
    expect(hex(encoder.object(object, typeOf(object)))).toBe(Buffer.from(protobuf, "base64").toString("hex"));
  });

  const lists = Object.entries(responses).filter(([name]) => name.includes("list"));
  test.each(lists)("with a %s is the same", (_, { json, protobuf }) => {
    const list = isJsonObject(json) ? json : {};
    const type = typeOf(list);
    const items = (Array.isArray(list["items"]) ? list["items"] : []).filter(isJsonObject);
    const content = encoder.items({ ...type, kind: type.kind.replace(/List$/, "") }, items);
    const metadata = isJsonObject(list["metadata"]) ? list["metadata"] : {};
    const { start, end } = encoder.listEnds(type, metadata, content.length);
    expect(hex(Buffer.concat([start, content, end]))).toBe(Buffer.from(protobuf, "base64").toString("hex"));
  });

  test("to a watch has the same frames", () => {
    const watch = responses["watch"];
    const frames = (Array.isArray(watch?.json) ? watch.json.filter(isJsonObject) : []).map(({ type, object }) => {
      const value = isJsonObject(object) ? object : {};
      return encoder.frame(String(type), encoder.object(value, typeOf(value)));
    });
    expect(frames.length).toBeGreaterThan(1);
    expect(hex(Buffer.concat(frames))).toBe(Buffer.from(watch?.protobuf ?? "", "base64").toString("hex"));
  });
});
