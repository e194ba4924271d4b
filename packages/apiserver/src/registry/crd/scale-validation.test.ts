import type { KubernetesObject } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import { scaleCauses } from "./scale-validation.ts";

const scale = {
  specReplicasPath: ".spec.replicas",
  statusReplicasPath: ".status.count",
  labelSelectorPath: ".status.selector",
};
const causesOf = (parts: object, isStatus = false): readonly string[] => {
  const object = { apiVersion: "example.com/v1", kind: "Widget", metadata: {}, ...parts } as KubernetesObject;
  return scaleCauses(scale, object, isStatus).map(({ reason, field, message }) => `${reason} ${field} ${message}`);
};

describe("scaling a custom resource", () => {
  it("allows replicas and a selector, or neither", () => {
    expect(causesOf({ spec: { replicas: 3 }, status: { count: 0, selector: "a=b" } })).toEqual([]);
    expect(causesOf({})).toEqual([]);
  });

  it("rejects invalid replicas with the path of the definition", () => {
    expect(causesOf({ spec: { replicas: -1 } })).toEqual([
      "FieldValueInvalid .spec.replicas Invalid value: -1: should be a non-negative integer",
    ]);
    expect(causesOf({ spec: { replicas: "3" } })).toHaveLength(1);
    expect(causesOf({ spec: { replicas: 1.5 } })).toHaveLength(1);
    expect(causesOf({ spec: { replicas: 2 ** 31 } })).toHaveLength(1);
    expect(causesOf({ status: { count: -1, selector: {} } })).toEqual([
      "FieldValueInvalid .status.count Invalid value: -1: should be a non-negative integer",
      "FieldValueInvalid .status.selector Invalid value: {}: must be a string",
    ]);
  });

  it("allows a status update despite an invalid spec", () => {
    expect(causesOf({ spec: { replicas: -1 }, status: { count: 1 } }, true)).toEqual([]);
  });
});
