import { expect, it } from "vitest";
import { decodeError } from "./decode-error.ts";

const pod = { group: "", version: "v1", kind: "Pod" };
const prefix = 'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal';

it.each([
  [{ spec: { dnsPolicy: 5 } }, "spec.dnsPolicy", "number into Go struct field PodSpec.spec.dnsPolicy of type v1.DNSPolicy"],
  [
    { spec: { activeDeadlineSeconds: "x" } },
    "spec.activeDeadlineSeconds",
    "string into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
  ],
  [
    { spec: { containers: [{ ports: [{ hostPort: 2 ** 31 }] }] } },
    "spec.containers[0].ports[0].hostPort",
    "number 2147483648 into Go struct field ContainerPort.spec.containers.ports.hostPort of type int32",
  ],
  [
    { spec: { volumes: [{ secret: "x" }] } },
    "spec.volumes[0].secret",
    "string into Go struct field Volume.spec.volumes.VolumeSource.secret of type v1.SecretVolumeSource",
  ],
  [{ spec: { overhead: "x" } }, "spec.overhead", "string into Go struct field PodSpec.spec.overhead of type v1.ResourceList"],
])("names Go's type of a field in %j", (object, path, message) => {
  expect(decodeError(pod, object, path).message).toBe(`${prefix} ${message}`);
});

const labels = (key: string) => ({ metadata: { labels: { other: "x", [key]: 5 } } });

it.each(["a.b/c", "a..c", "a[0].b"])("finds the map key %s, of whose dots and brackets the path has only the parts", (key) => {
  const { message } = decodeError(pod, labels(key), `metadata.labels.${key}`);
  expect(message).toBe(`${prefix} number into Go struct field ObjectMeta.metadata.labels of type string`);
});

// Trying each length of the key would copy 40 GB.
it("reads a long map key once", () => {
  const key = `a.${".c".repeat(200_000)}`;
  expect(decodeError(pod, labels(key), `metadata.labels.${key}`).message).toContain("ObjectMeta.metadata.labels");
});

it("shortens a path that it cannot follow", () => {
  const path = `spec.${"x".repeat(100_000)}`;
  expect(decodeError(pod, {}, path).message.length).toBeLessThan(2_000);
});
