import "reflect-metadata";
import { webcrypto, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { describe, expect, it } from "vitest";
import { certificateSubject, signCertificateRequest } from "./certificate-requests.ts";
import { createCertificateAuthority } from "@keelson/api-machinery/certificates";

const now = Date.parse("2026-01-01T00:00:00Z");
const dayMs = 86_400_000;

async function request(): Promise<string> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const created = await x509.Pkcs10CertificateRequestGenerator.create({
    name: "O=team-a,O=team-b,CN=jane",
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.SubjectAlternativeNameExtension([
        { type: "dns", value: "a.example" },
        { type: "ip", value: "127.0.0.9" },
      ]),
    ],
  });
  return Buffer.from(created.toString("pem")).toString("base64");
}

describe("a certificate request", () => {
  it("names its subject", async () => {
    expect(await certificateSubject(await request())).toEqual({
      commonName: "jane",
      organizations: ["team-a", "team-b"],
      dnsNames: ["a.example"],
      ipAddresses: ["127.0.0.9"],
      emails: [],
      uris: [],
    });
    expect(await certificateSubject(Buffer.from("nothing").toString("base64"))).toBeUndefined();
  });

  it("is signed for its subject, with the requested usages, no longer than the authority is valid", async () => {
    const authority = await createCertificateAuthority("ca", new Date(now), new Date(now + 10 * dayMs));
    const options = { request: await request(), usages: ["client auth", "digital signature"], notBefore: new Date(now) };
    const pem = await signCertificateRequest(authority, { ...options, notAfter: new Date(now + dayMs) });
    const certificate = new X509Certificate(pem);
    expect(certificate.verify(new X509Certificate(authority.certificate).publicKey)).toBe(true);
    expect(certificate.subject).toContain("CN=jane");
    expect(certificate.checkHost("a.example")).toBe("a.example");
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
    expect(certificate.ca).toBe(false);
    expect(Date.parse(certificate.validTo)).toBe(now + dayMs);
    const long = await signCertificateRequest(authority, { ...options, notAfter: new Date(now + 99 * dayMs) });
    expect(Date.parse(new X509Certificate(long).validTo)).toBe(now + 10 * dayMs);
  });

  it("is rejected if its signature does not match its key", async () => {
    const authority = await createCertificateAuthority("ca", new Date(now), new Date(now + dayMs));
    const pem = Buffer.from(await request(), "base64").toString("latin1");
    const der = Buffer.from(pem.replace(/-----[^-]+-----/g, ""), "base64");
    // The last byte belongs to the signature.
    der[der.length - 1] = (der.at(-1) ?? 0) ^ 1;
    const forged = `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString("base64")}\n-----END CERTIFICATE REQUEST-----\n`;
    await expect(
      signCertificateRequest(authority, {
        request: Buffer.from(forged).toString("base64"),
        usages: [],
        notBefore: new Date(now),
        notAfter: new Date(now + dayMs),
      }),
    ).rejects.toThrow(/signature/);
  });
});
