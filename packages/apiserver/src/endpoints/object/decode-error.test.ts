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
