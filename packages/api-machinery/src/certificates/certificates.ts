import { createPrivateKey, randomBytes, webcrypto, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import type * as X509 from "@peculiar/x509";

/** A certificate and its private key in PEM. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** The subject and validity of a certificate to issue. */
export interface CertificateRequest {
  /** Common name; the user name in a client certificate. */
  readonly commonName: string;
  /** Organizations; the user's groups in a client certificate. */
  readonly organizations?: readonly string[];
  /** `peer`: both, for programs that connect to each other. */
  readonly usage: "server" | "client" | "peer";
  /** Host names and IP addresses that a server certificate is valid for. */
  readonly hosts?: readonly string[];
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** The keys and signatures of the server: ECDSA on P-256. */
export const signatureAlgorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** Creates a certificate authority (ECDSA P-256) that may sign leaf certificates but no intermediate authorities. */
export async function createCertificateAuthority(commonName: string, notBefore: Date, notAfter: Date): Promise<KeyPair> {
  const x509 = await loadX509();
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: [{ CN: [commonName] }],
    notBefore,
    notAfter,
    signingAlgorithm: signatureAlgorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(
        x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign | x509.KeyUsageFlags.digitalSignature,
        true,
      ),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: withNewline(certificate.toString("pem")), key: await privateKeyPem(keys.privateKey) };
}

/** Issues a leaf certificate with a new key. */
export async function issueCertificate(authority: KeyPair, request: CertificateRequest): Promise<KeyPair> {
  const keys = await generateKeys();
  const certificate = await certifyPublicKey(authority, request, keys.publicKey);
  return { certificate, key: await privateKeyPem(keys.privateKey) };
}

/**
 * Issues a leaf certificate (PEM) for a public key whose private key is elsewhere.
 *
 * @param publicKey SubjectPublicKeyInfo in DER of an ECDSA P-256 key
 */
export async function issueCertificateForKey(
  authority: KeyPair,
  request: CertificateRequest,
  publicKey: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const key = await webcrypto.subtle.importKey("spki", publicKey, signatureAlgorithm, true, ["verify"]);
  return await certifyPublicKey(authority, request, key);
}

const keyUsages = {
  server: ["serverAuth"],
  client: ["clientAuth"],
  peer: ["serverAuth", "clientAuth"],
} as const satisfies Record<CertificateRequest["usage"], readonly string[]>;

async function certifyPublicKey(authority: KeyPair, request: CertificateRequest, publicKey: SubtleKey): Promise<string> {
  const x509 = await loadX509();
  const issuer = new x509.X509Certificate(authority.certificate);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    issuer: issuer.subjectName,
    subject: new x509.Name(subjectOf(request)),
    notBefore: request.notBefore,
    notAfter: request.notAfter,
    signingAlgorithm: signatureAlgorithm,
    publicKey,
    signingKey: await importSigningKey(authority.key),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension(keyUsages[request.usage].map((usage) => x509.ExtendedKeyUsage[usage])),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
      ...(request.hosts === undefined
        ? []
        : [
            new x509.SubjectAlternativeNameExtension(
              request.hosts.map((host) => ({ type: isIP(host) === 0 ? "dns" : "ip", value: host })),
            ),
          ]),
    ],
  });
  return withNewline(certificate.toString("pem"));
}

/** A certificate that its authority has revoked. `serial` is in hexadecimal. */
export interface RevokedCertificate {
  readonly serial: string;
  readonly revokedAt: Date;
}

/** Creates a certificate revocation list (PEM, RFC 5280 section 5). */
export async function createRevocationList(
  authority: KeyPair,
  revoked: readonly RevokedCertificate[],
  { thisUpdate, nextUpdate }: { readonly thisUpdate: Date; readonly nextUpdate: Date },
): Promise<string> {
  const x509 = await loadX509();
  const issuer = new x509.X509Certificate(authority.certificate);
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.subjectName,
    thisUpdate,
    nextUpdate,
    entries: revoked.map(({ serial, revokedAt }) => ({ serialNumber: serial, revocationDate: revokedAt })),
    signingAlgorithm: signatureAlgorithm,
    signingKey: await importSigningKey(authority.key),
  });
  // The library labels it CRL, which OpenSSL does not read.
  return withNewline(list.toString("pem").replaceAll(/(?<=-----(?:BEGIN|END) )CRL/g, "X509 CRL"));
}

/** A PKCS #10 certificate request and its private key in PEM. */
export interface RequestPair {
  readonly request: string;
  readonly key: string;
}

/** Creates a certificate request with a new key. The signer decides about usages and validity. */
export async function createCertificateRequest(
  subject: Pick<CertificateRequest, "commonName" | "organizations">,
): Promise<RequestPair> {
  const x509 = await loadX509();
  const keys = await generateKeys();
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: new x509.Name(subjectOf(subject)),
    keys,
    signingAlgorithm: signatureAlgorithm,
  });
  return { request: withNewline(request.toString("pem")), key: await privateKeyPem(keys.privateKey) };
}

/** Generates a private key (ECDSA P-256, PKCS #8 PEM) for signing service-account tokens. */
export async function generateSigningKey(): Promise<string> {
  return privateKeyPem((await generateKeys()).privateKey);
}

/** Why a certificate must be replaced, or undefined if it is valid until at least `until`. */
export function certificateDefect(pair: KeyPair, authority: KeyPair, now: number, until: number): string | undefined {
  let certificate: X509Certificate;
  let issuer: X509Certificate;
  try {
    certificate = new X509Certificate(pair.certificate);
    issuer = new X509Certificate(authority.certificate);
    if (!matchesKey(certificate, pair.key)) return "the key does not match the certificate";
  } catch {
    return "it cannot be parsed";
  }
  if (!certificate.checkIssued(issuer) || !certificate.verify(issuer.publicKey)) return "it is signed by another authority";
  if (Date.parse(certificate.validFrom) > now) return "it is not yet valid";
  if (Date.parse(certificate.validTo) < until) return "it is near its expiry";
  return undefined;
}

/** The object form is literal. A plain string starting with "#" would be parsed as hexadecimal. */
function subjectOf({ commonName, organizations = [] }: Pick<CertificateRequest, "commonName" | "organizations">) {
  return [...organizations.map((name) => ({ O: [{ utf8String: name }] })), { CN: [{ utf8String: commonName }] }];
}

function matchesKey(certificate: X509Certificate, key: string): boolean {
  return certificate.checkPrivateKey(createPrivateKey(key));
}

type SubtleKey = webcrypto.CryptoKey;

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(signatureAlgorithm, true, ["sign", "verify"]);
}

async function privateKeyPem(key: SubtleKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key));
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN PRIVATE KEY-----\n${lines.join("\n")}\n-----END PRIVATE KEY-----\n`;
}

/** Imports a private key (PEM) for signing. */
export function importSigningKey(pem: string): Promise<SubtleKey> {
  const der = createPrivateKey(pem).export({ type: "pkcs8", format: "der" });
  return webcrypto.subtle.importKey("pkcs8", der, signatureAlgorithm, false, ["sign"]);
}

/** A serial number of 126 random bits: positive, never zero, at most the 20 octets that RFC 5280 section 4.1.2.2 allows. */
export function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString("hex");
}

/** PEM that ends in a newline. */
export function withNewline(pem: string): string {
  return pem.endsWith("\n") ? pem : `${pem}\n`;
}

/** Loaded lazily: it takes a quarter of a second, and most starts sign nothing. */
export async function loadX509(): Promise<typeof X509> {
  await import("reflect-metadata");
  return import("@peculiar/x509");
}

/** The subject and names of a PKCS #10 certificate request. */
export interface RequestedCertificate {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly emails: readonly string[];
  readonly uris: readonly string[];
}
