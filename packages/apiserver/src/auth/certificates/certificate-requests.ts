import { X509Certificate } from "node:crypto";
import type * as X509 from "@peculiar/x509";
import {
  importSigningKey,
  type KeyPair,
  loadX509,
  type RequestedCertificate,
  serialNumber,
  signatureAlgorithm,
  withNewline,
} from "@keelson/api-machinery/certificates";
import { pemBlocks } from "../../registry/pem-blocks.ts";

/** Reads the `spec.request` of a CertificateSigningRequest: base64 of a PEM block. Undefined if it cannot be parsed. */
export async function certificateSubject(request: string): Promise<RequestedCertificate | undefined> {
  const x509 = await loadX509();
  const parsed = parse(x509, request);
  if (parsed === undefined) return undefined;
  const field = (name: string): string[] => parsed.subjectName.getField(name);
  const names = alternativeNames(x509, parsed)?.names.items ?? [];
  const ofType = (type: string): string[] => names.filter((name) => name.type === type).map(({ value }) => value);
  return {
    commonName: field("CN").at(-1) ?? "",
    organizations: field("O"),
    dnsNames: ofType("dns"),
    ipAddresses: ofType("ip"),
    emails: ofType("email"),
    uris: ofType("url"),
  };
}

/** A certificate to sign. */
export interface SigningOptions {
  /** `spec.request`: base64 of a PEM block. */
  readonly request: string;
  /** `spec.usages`: `client auth`, `digital signature`. */
  readonly usages: readonly string[];
  readonly notBefore: Date;
  /** Cut to the end of the authority's validity. */
  readonly notAfter: Date;
}

/** Why a request cannot be signed. */
class CertificateRequestError extends Error {
  override readonly name = "CertificateRequestError";
  readonly code = "InvalidRequest";
}

/**
 * Signs a certificate for the subject, the alternative names and the key of a request. Other extensions of the request are ignored.
 *
 * **Errors**: a {@link CertificateRequestError} if it cannot be parsed or its signature does not match its key.
 */
export async function signCertificateRequest(authority: KeyPair, options: SigningOptions): Promise<string> {
  const x509 = await loadX509();
  const request = parse(x509, options.request);
  if (request === undefined) throw new CertificateRequestError("the certificate request cannot be parsed");
  if (!(await request.verify())) throw new CertificateRequestError("the signature of the certificate request is invalid");
  const issuer = new x509.X509Certificate(authority.certificate);
  const lastMoment = Date.parse(new X509Certificate(authority.certificate).validTo);
  const names = alternativeNames(x509, request);
  const extended = options.usages.flatMap((usage) => extendedUsages(x509)[usage] ?? []);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    issuer: issuer.subjectName,
    subject: request.subjectName,
    notBefore: options.notBefore,
    notAfter: new Date(Math.min(options.notAfter.getTime(), lastMoment)),
    signingAlgorithm: signatureAlgorithm,
    publicKey: request.publicKey,
    signingKey: await importSigningKey(authority.key),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(
        options.usages.reduce((flags, usage) => flags | (keyUsages(x509)[usage] ?? 0), 0),
        true,
      ),
      ...(extended.length === 0 ? [] : [new x509.ExtendedKeyUsageExtension(extended)]),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
      ...(names === undefined ? [] : [names]),
    ],
  });
  return withNewline(certificate.toString("pem"));
}

/** Creates a signer of requests for an authority. */
export function createCertificateSigner(authority: KeyPair): {
  subjectOf(request: string): Promise<RequestedCertificate | undefined>;
  sign(options: SigningOptions): Promise<string>;
} {
  return { subjectOf: certificateSubject, sign: (options) => signCertificateRequest(authority, options) };
}

function parse(x509: typeof X509, request: string): X509.Pkcs10CertificateRequest | undefined {
  const [block] = pemBlocks(Buffer.from(request, "base64").toString("latin1"));
  if (block === undefined) return undefined;
  try {
    return new x509.Pkcs10CertificateRequest(Buffer.from(block.base64, "base64"));
  } catch {
    return undefined;
  }
}

const alternativeNameOid = "2.5.29.17";

function alternativeNames(
  { SubjectAlternativeNameExtension }: typeof X509,
  request: X509.Pkcs10CertificateRequest,
): X509.SubjectAlternativeNameExtension | undefined {
  const extension = request.getExtension(alternativeNameOid);
  return extension === null ? undefined : new SubjectAlternativeNameExtension(extension.rawData);
}

function keyUsages({ KeyUsageFlags }: typeof X509): Readonly<Record<string, number>> {
  return {
    signing: KeyUsageFlags.digitalSignature,
    "digital signature": KeyUsageFlags.digitalSignature,
    "content commitment": KeyUsageFlags.nonRepudiation,
    "key encipherment": KeyUsageFlags.keyEncipherment,
    "key agreement": KeyUsageFlags.keyAgreement,
    "data encipherment": KeyUsageFlags.dataEncipherment,
    "cert sign": KeyUsageFlags.keyCertSign,
    "crl sign": KeyUsageFlags.cRLSign,
    "encipher only": KeyUsageFlags.encipherOnly,
    "decipher only": KeyUsageFlags.decipherOnly,
  };
}

function extendedUsages({ ExtendedKeyUsage }: typeof X509): Readonly<Record<string, string>> {
  return {
    any: "2.5.29.37.0",
    "server auth": ExtendedKeyUsage.serverAuth,
    "client auth": ExtendedKeyUsage.clientAuth,
    "code signing": ExtendedKeyUsage.codeSigning,
    "email protection": ExtendedKeyUsage.emailProtection,
    "s/mime": ExtendedKeyUsage.emailProtection,
    timestamping: ExtendedKeyUsage.timeStamping,
    "ocsp signing": ExtendedKeyUsage.ocspSigning,
  };
}
