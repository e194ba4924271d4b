import type { RequestedCertificate } from "@keelson/api-machinery/certificates";
import { describe, expect, it } from "vitest";
import { type CertificateSigningRequestObject, decideSigning } from "./signing-decision.ts";

const subject: RequestedCertificate = {
  commonName: "system:node:n1",
  organizations: ["system:nodes"],
  dnsNames: [],
  ipAddresses: [],
  emails: [],
  uris: [],
};
const client = "kubernetes.io/kube-apiserver-client";
const kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
const serving = "kubernetes.io/kubelet-serving";

function request(spec: object, ...conditions: string[]): CertificateSigningRequestObject {
  return {
    apiVersion: "certificates.k8s.io/v1",
    kind: "CertificateSigningRequest",
    metadata: { name: "a" },
    spec: { request: "", signerName: client, usages: ["client auth"], ...spec },
    status: { conditions: conditions.map((type) => ({ type, status: "True" })) },
  };
}

describe("the signer", () => {
  it.each([
    [request({}), "not approved"],
    [request({}, "Approved", "Denied"), "denied"],
    [request({}, "Approved", "Failed"), "failed"],
    [request({ signerName: "example.com/other" }, "Approved"), "for another signer"],
    [{ ...request({}, "Approved"), status: { ...request({}, "Approved").status, certificate: "YQ==" } }, "already signed"],
  ])("ignores %j: it is %s", (object) => {
    expect(decideSigning(object, subject)).toEqual({ kind: "none" });
  });

  it.each([
    [{}, {}],
    [{ signerName: kubelet, usages: ["client auth", "digital signature"] }, {}],
    [{ signerName: serving, usages: ["server auth", "key encipherment"] }, { dnsNames: ["n1"] }],
  ])("signs %j for %j", (spec, names) => {
    expect(decideSigning(request(spec, "Approved"), { ...subject, ...names })).toMatchObject({ kind: "sign" });
  });

  it("honours a shorter validity, up to a year", () => {
    const validMs = (expirationSeconds: number) => decideSigning(request({ expirationSeconds }, "Approved"), subject);
    expect(validMs(3600)).toEqual({ kind: "sign", validMs: 3_600_000 });
    expect(validMs(10 ** 9)).toEqual({ kind: "sign", validMs: 365 * 86_400_000 });
  });

  it.each([
    [{ usages: ["server auth"] }, {}, /usages did not match/],
    [{ usages: ["digital signature"] }, {}, /"client auth" required/],
    [{ signerName: kubelet }, { organizations: ["system:masters"] }, /organization is not system:nodes/],
    [{ signerName: kubelet }, { commonName: "jane" }, /does not begin with system:node:/],
    [{ signerName: kubelet }, { dnsNames: ["a"] }, /subjectAltNames are not allowed/],
    [{ signerName: serving, usages: ["server auth"] }, {}, /DNS or IP subjectAltName is required/],
    [{ signerName: serving, usages: ["server auth"] }, { dnsNames: ["a"], emails: ["a@b"] }, /Email/],
  ])("fails %j for %j", (spec, names, message) => {
    const decision = decideSigning(request(spec, "Approved"), { ...subject, ...names });
    expect(decision).toEqual({ kind: "fail", message: expect.stringMatching(message) });
  });

  it("fails a request that cannot be parsed", () => {
    expect(decideSigning(request({}, "Approved"), undefined)).toEqual({ kind: "fail", message: "unable to parse csr" });
  });
});
