import type { Schema } from "@keelson/api-machinery/schema";
import { describe, expect, it } from "vitest";
import { builtinSchema } from "./builtin-schemas.ts";
import { canonicalValues } from "./canonical-values.ts";

describe("canonicalValues", () => {
  it("canonicalises quantities at any depth", () => {
    const pod = {
      containers: [{ name: "a", resources: { limits: { cpu: 1, memory: "1024Mi" }, requests: { cpu: 0.5, memory: "1e3" } } }],
      volumes: [{ name: "v", emptyDir: { sizeLimit: "1000m" } }],
      overhead: { cpu: "1000m" },
    };
    canonicalValues(builtinSchema("core.v1.PodSpec"), pod);
    expect(pod).toEqual({
      containers: [{ name: "a", resources: { limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "500m", memory: "1e3" } } }],
      volumes: [{ name: "v", emptyDir: { sizeLimit: "1" } }],
      overhead: { cpu: "1" },
    });
  });

  it("throws on an invalid quantity and leaves other types to validation", () => {
    const schema = builtinSchema("core.v1.ResourceRequirements");
    expect(() => canonicalValues(schema, { limits: { cpu: "lots" } })).toThrow(RangeError);
    const odd = { limits: { cpu: [1], memory: null } };
    canonicalValues(schema, odd);
    expect(odd).toEqual({ limits: { cpu: [1], memory: null } });
  });
});

describe("times of built-in objects", () => {
  const schema: Schema = {
    type: "object",
    properties: { at: { type: "string", format: "date-time" }, renewed: { type: "string", format: "micro-time" } },
  };
  const canonical = (value: Record<string, unknown>): Record<string, unknown> => {
    canonicalValues(schema, value);
    return value;
  };

  it.each([
    ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"],
    ["2026-01-01T01:00:00.75+01:00", "2026-01-01T00:00:00Z"],
    ["soon", "soon"],
  ])("%s are in UTC, in whole seconds: %s", (at, expected) => {
    expect(canonical({ at })).toEqual({ at: expected });
  });

  it("have six fractional digits in Leases, in UTC", () => {
    const renewed = "2026-01-01T00:00:00.000001Z";
    expect(canonical({ renewed: "2026-01-01T01:00:00.000001+01:00" })).toEqual({ renewed });
    expect(canonical({ renewed, at: null })).toEqual({ renewed, at: null });
    for (const text of ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "soon"]) {
      expect(() => canonical({ renewed: text })).toThrow(/parsing time/);
    }
  });
});
