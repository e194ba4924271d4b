import { webcrypto } from "node:crypto";
import { loadX509 } from "@keelson/api-machinery/certificates";
import { expect, test } from "vitest";
import { certificateRequestFault } from "./certificate-request-fault.ts";

type Algorithm = { readonly name: string; readonly hash: string };

const { subtle } = webcrypto;
const ecdsa = { name: "ECDSA", hash: "SHA-256" };
const rsa = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
const rsaWithSha1 = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-1" };

/** A signed request. */
async function request(algorithm: Algorithm): Promise<Buffer> {
  const size = { modulusLength: 2_048, publicExponent: new Uint8Array([1, 0, 1]) };
  const keys = await (algorithm.name === "ECDSA"
    ? subtle.generateKey({ ...algorithm, namedCurve: "P-256" }, true, ["sign", "verify"])
    : subtle.generateKey({ ...algorithm, ...size }, true, ["sign", "verify"]));
  const x509 = await loadX509();
  const subject = { name: "CN=alice, O=developers", keys, signingAlgorithm: algorithm };
  return Buffer.from((await x509.Pkcs10CertificateRequestGenerator.create(subject)).rawData);
}

/** The request with `change` made to its last byte, which belongs to the signature. */
function withOtherSignature(der: Buffer): Buffer {
  const changed = Buffer.from(der);
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
  return changed;
}

test.each([
  [ecdsa, "x509: ECDSA verification failure"],
  [rsa, "crypto/rsa: verification error"],
  [rsaWithSha1, "crypto/rsa: verification error"],
])("verifies the signature of a request: %j", async (algorithm, failure) => {
  const der = await request(algorithm);
  expect(certificateRequestFault(der)).toBeUndefined();
  expect(certificateRequestFault(withOtherSignature(der))).toBe(failure);
});

const options =
  "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}";

test.each([
  ["", "asn1: syntax error: sequence truncated"],
  ["30", "asn1: syntax error: truncated tag or length"],
  ["3003", "asn1: syntax error: data truncated"],
  ["3080", "asn1: syntax error: indefinite length found (not DER)"],
  ["308101", "asn1: structure error: non-minimal length"],
  ["30820001", "asn1: structure error: superfluous leading zeros in length"],
  ["300000", "asn1: syntax error: trailing data"],
  ["3000", "asn1: syntax error: sequence truncated"],
  [
    "040161",
    `asn1: structure error: tags don't match (16 vs {class:0 tag:4 length:1 isCompound:false}) ${options} certificateRequest @2`,
  ],
  [
    "3003020100",
    `asn1: structure error: tags don't match (16 vs {class:0 tag:2 length:1 isCompound:false}) ${options} tbsCertificateRequest @2`,
  ],
])("rejects the bytes %s in the words of Go", (hex, fault) => {
  expect(certificateRequestFault(Buffer.from(hex, "hex"))).toBe(fault);
});

test("rejects a request that is signed with MD5", async () => {
  const sha256 = "2a864886f70d01010b";
  const der = (await request(rsa)).toString("hex").replace(sha256, "2a864886f70d010104");
  expect(certificateRequestFault(Buffer.from(der, "hex"))).toBe("x509: cannot verify signature: insecure algorithm MD5-RSA");
});

test("rejects any part of a request", async () => {
  const der = await request(ecdsa);
  for (let end = 0; end < der.length; end++) expect(certificateRequestFault(der.subarray(0, end))).toMatch(/^asn1: /);
});
