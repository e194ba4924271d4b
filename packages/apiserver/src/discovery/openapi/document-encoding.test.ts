import { createHash } from "node:crypto";
import { runSteps } from "@keelson/api-machinery/server";
import { describe, expect, it } from "vitest";
import { encodeJson, encodeProtobuf } from "./document-encoding.ts";

const entries = Object.fromEntries(
  Array.from({ length: 200 }, (_, index) => [`/path"${index}`, { get: { text: "x".repeat(1000) } }]),
);
const document = {
  openapi: "3.0.0",
  empty: {},
  list: [1, { a: null }],
  paths: entries,
  components: { schemas: { é: { type: "object" } } },
};

describe("an OpenAPI document", () => {
  it("is encoded as JSON in steps of a bounded size, with the hash of its bytes", () => {
    const steps = encodeJson(document);
    let count = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) count++;
    const { bytes, etag } = step.value;
    const text = JSON.stringify(document);
    expect(Buffer.from(bytes).toString()).toBe(text);
    expect(etag).toBe(`"${createHash("sha256").update(text).digest("hex").toUpperCase()}"`);
    expect(count).toBeGreaterThan(10);
  });

  it("is encoded as protobuf an entry at a time", () => {
    const encode = (part: object): Uint8Array => Buffer.from(`${JSON.stringify(part)}\n`);
    const small = { swagger: "2.0", paths: { "/a": {}, "/b": {} }, definitions: { c: {} } };
    expect(
      Buffer.from(runSteps(encodeProtobuf(small, encode)))
        .toString()
        .trim()
        .split("\n"),
    ).toEqual(['{"swagger":"2.0"}', '{"paths":{"/a":{}}}', '{"paths":{"/b":{}}}', '{"definitions":{"c":{}}}']);
  });
});
