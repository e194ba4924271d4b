import { describe, expect, it } from "vitest";
import { builtinSchema } from "./builtin-schemas.ts";
import { canonicalQuantities } from "./quantities.ts";

describe("canonicalQuantities", () => {
  it("writes quantities as an API server does, wherever they are", () => {
    const pod = {
      containers: [{ name: "a", resources: { limits: { cpu: 1, memory: "1024Mi" }, requests: { cpu: 0.5, memory: "1e3" } } }],
      volumes: [{ name: "v", emptyDir: { sizeLimit: "1000m" } }],
      overhead: { cpu: "1000m" },
    };
    canonicalQuantities(builtinSchema("core.v1.PodSpec"), pod);
    expect(pod).toEqual({
      containers: [{ name: "a", resources: { limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "500m", memory: "1e3" } } }],
      volumes: [{ name: "v", emptyDir: { sizeLimit: "1" } }],
      overhead: { cpu: "1" },
    });
  });

  it("throws at what is none, and leaves other types to validation", () => {
    const schema = builtinSchema("core.v1.ResourceRequirements");
    expect(() => canonicalQuantities(schema, { limits: { cpu: "lots" } })).toThrow(RangeError);
    const odd = { limits: { cpu: [1], memory: null } };
    canonicalQuantities(schema, odd);
    expect(odd).toEqual({ limits: { cpu: [1], memory: null } });
  });
});
