import { describe, expect, it } from "vitest";
import { conversionFault } from "./conversion-fault.ts";

const deployment = { group: "apps", version: "v1", kind: "Deployment" };
const secret = { group: "", version: "v1", kind: "Secret" };
const service = { group: "", version: "v1", kind: "Service" };
const inPod = (spec: object): object => ({ spec: { template: { spec } } });

describe("the result of a strategic merge patch is rejected as by kube-apiserver 1.35", () => {
  it.each([
    [{ spec: [] }, "cannot restore struct from: slice"],
    [{ spec: "x" }, "cannot restore struct from: string"],
    [{ spec: { selector: 1 } }, "cannot restore struct from: int64"],
    [{ spec: { replicas: "x" } }, "unrecognized type: int32"],
    [{ spec: { replicas: 1.5 } }, "cannot convert float64 to int32"],
    [{ spec: { replicas: true } }, "unrecognized type: int32"],
    [{ spec: { paused: 1 } }, "unrecognized type: bool"],
    [{ metadata: { name: 1 } }, "cannot convert int64 to string"],
    [{ metadata: { labels: [] } }, "cannot restore map from slice"],
    [{ metadata: { labels: { a: 1 } } }, "cannot convert int64 to string"],
    [{ metadata: { annotations: { a: {} } } }, "unrecognized type: string"],
    [{ metadata: { finalizers: "x" } }, "cannot restore slice from string"],
    [{ kind: 1 }, "cannot convert int64 to string"],
    [inPod({ containers: {} }), "cannot restore slice from map"],
    [inPod({ containers: [{ name: "c", command: [1] }] }), "cannot convert int64 to string"],
    [inPod({ terminationGracePeriodSeconds: "x" }), "unrecognized type: int64"],
  ])("%j", (result, why) => {
    expect(conversionFault(deployment, result)).toBe(why);
  });

  it("with the name of a named type", () => {
    expect(conversionFault(service, { spec: { type: 1 } })).toBe("cannot convert int64 to v1.ServiceType");
  });

  it("with the position of a fault in base64", () => {
    expect(conversionFault(secret, { data: { a: "*" } })).toBe("illegal base64 data at input byte 0");
    expect(conversionFault(secret, { data: { a: "YQ==" } })).toBeUndefined();
  });

  it("unless a type with its own decoder rejects it", () => {
    expect(conversionFault(deployment, inPod({ containers: [{ resources: { limits: { cpu: "x" } } }] }))).toBeUndefined();
    expect(conversionFault(deployment, { metadata: { creationTimestamp: "x" }, spec: { replicas: null } })).toBeUndefined();
  });
});
