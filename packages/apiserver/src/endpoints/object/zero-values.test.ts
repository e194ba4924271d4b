import type { JsonObject } from "@keelson/api-machinery";
import { runSteps } from "@keelson/api-machinery/server";
import { describe, expect, it } from "vitest";
import { definitionOf } from "../../registry/builtin/definition.ts";
import { applyZeroValues } from "./zero-values.ts";

function zeroed(kind: string, object: JsonObject, options?: { readonly isStatusAlone: boolean }): JsonObject {
  runSteps(applyZeroValues(definitionOf(kind), object, options));
  return object;
}

describe("zero values of a built-in object", () => {
  it("are kept in pointers, and omitted elsewhere", () => {
    const spec = { ports: [{ name: "", port: 0, appProtocol: "" }], externalName: "", healthCheckNodePort: 0 };
    expect(zeroed("core.v1.Service", { spec })).toEqual({
      spec: { ports: [{ port: 0, appProtocol: "" }] },
      status: { loadBalancer: {} },
    });
  });

  it("are written for texts, numbers and structs that Go always writes", () => {
    expect(zeroed("core.v1.Pod", { spec: { containers: [{}], tolerations: [{}] } })["spec"]).toEqual({
      containers: [{ name: "", resources: {} }],
      tolerations: [{}],
    });
  });

  it("replace null, including in lists and maps of texts", () => {
    expect(zeroed("core.v1.ConfigMap", { data: { a: null }, immutable: null })).toEqual({ data: { a: "" } });
    expect(zeroed("core.v1.Secret", { data: { a: null } })).toEqual({ data: { a: "" } });
  });

  it("are applied to the status alone if the rest is stored already", () => {
    const spec = Object.freeze({ replicas: 0, paused: false });
    expect(zeroed("apps.v1.Deployment", { spec, status: { replicas: 0 } }, { isStatusAlone: true })).toEqual({
      spec: { replicas: 0, paused: false },
      status: {},
    });
  });
});
