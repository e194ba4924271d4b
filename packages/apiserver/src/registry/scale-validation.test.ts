import type { KubernetesObject } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import { scaleCauses } from "./scale-validation.ts";

const scale = {
  specReplicasPath: ".spec.replicas",
  statusReplicasPath: ".status.count",
  labelSelectorPath: ".status.selector",
};
const told = (parts: object, isStatus = false): readonly string[] => {
  const object = { apiVersion: "example.com/v1", kind: "Widget", metadata: {}, ...parts } as KubernetesObject;
  return scaleCauses(scale, object, isStatus).map(({ reason, field, message }) => `${reason} ${field} ${message}`);
};

describe("a custom resource that is scaled", () => {
  it("may have replicas and a selector, or none", () => {
    expect(told({ spec: { replicas: 3 }, status: { count: 0, selector: "a=b" } })).toEqual([]);
    expect(told({})).toEqual([]);
  });

  it("is refused replicas that are no number of Pods, by the path of its definition", () => {
    expect(told({ spec: { replicas: -1 } })).toEqual([
      "FieldValueInvalid .spec.replicas Invalid value: -1: should be a non-negative integer",
    ]);
    expect(told({ spec: { replicas: "3" } })).toHaveLength(1);
    expect(told({ spec: { replicas: 1.5 } })).toHaveLength(1);
    expect(told({ spec: { replicas: 2 ** 31 } })).toHaveLength(1);
    expect(told({ status: { count: -1, selector: {} } })).toEqual([
      "FieldValueInvalid .status.count Invalid value: -1: should be a non-negative integer",
      "FieldValueInvalid .status.selector Invalid value: {}: must be a string",
    ]);
  });

  it("may have its status written whatever is wrong with its spec", () => {
    expect(told({ spec: { replicas: -1 }, status: { count: 1 } }, true)).toEqual([]);
  });
});
