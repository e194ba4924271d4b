import { expect, it } from "vitest";
import { prefersOpenApiProtobuf } from "./media-types.ts";

it.each([
  ["application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "v2", true],
  ["application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=1, */*", "v2", true],
  ["application/json, application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "v2", false],
  ["application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "v3", true],
  ["application/com.github.proto-openapi.spec.v3.v1.0+protobuf", "v3", true],
  ["application/json;q=0.5, application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "v3", true],
  ["application/com.github.proto-openapi.spec.v3@v1.0+protobuf;q=0.5, application/json", "v3", false],
  ["application/com.github.proto-openapi.spec.v3@v1.0+protobuf;q=0", "v3", false],
  ["application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "v3", false],
  ["*/*", "v3", false],
  [undefined, "v2", false],
] as const)("decides by the Accept header %s whether %s is sent in protobuf: %s", (accept, version, expected) => {
  expect(prefersOpenApiProtobuf(accept, version)).toBe(expected);
});
