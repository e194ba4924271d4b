import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { type DerElement, derFault, readDer, tagMismatch } from "./der.ts";

const sequenceTag = 0x30;

/** Hash functions by the signature algorithm's object identifier, in hexadecimal; null for Ed25519, which needs none. Requests may use SHA-1. */
const algorithms: Readonly<Record<string, { readonly hash: string | null; readonly keyType: string }>> = {
  "2a864886f70d010105": { hash: "sha1", keyType: "rsa" },
  "2b0e03021d": { hash: "sha1", keyType: "rsa" },
  "2a864886f70d01010b": { hash: "sha256", keyType: "rsa" },
  "2a864886f70d01010c": { hash: "sha384", keyType: "rsa" },
  "2a864886f70d01010d": { hash: "sha512", keyType: "rsa" },
  "2a8648ce3d0401": { hash: "sha1", keyType: "ec" },
  "2a8648ce3d040302": { hash: "sha256", keyType: "ec" },
  "2a8648ce3d040303": { hash: "sha384", keyType: "ec" },
  "2a8648ce3d040304": { hash: "sha512", keyType: "ec" },
  "2b6570": { hash: null, keyType: "ed25519" },
};

/** Algorithms that are not secure, by object identifier in hexadecimal, with the names that Go gives them. */
const insecure: Readonly<Record<string, string>> = {
  "2a864886f70d010102": "MD2-RSA",
  "2a864886f70d010104": "MD5-RSA",
};

/** The names of keys, and Go's errors if their signature does not match. */
const keyTypes: Readonly<Record<string, { readonly name: string; readonly goType: string; readonly failure: string }>> = {
  rsa: { name: "RSA", goType: "*rsa.PublicKey", failure: "crypto/rsa: verification error" },
  ec: { name: "ECDSA", goType: "*ecdsa.PublicKey", failure: "x509: ECDSA verification failure" },
  ed25519: { name: "Ed25519", goType: "ed25519.PublicKey", failure: "x509: Ed25519 verification failure" },
};

/** Larger RSA keys take more than a few milliseconds to verify. Go's TLS library has the same limit. */
const maxModulusBits = 8_192;

/**
 * Why bytes are not a PKCS #10 certificate request (RFC 2986) with a valid signature, in the words of Go's `crypto/x509`. Undefined if they
 * are one.
 */
export function certificateRequestFault(der: Buffer): string | undefined {
  const whole = readDer(der, 0);
  if (typeof whole === "string") return whole;
  if (whole.tag !== sequenceTag) return tagMismatch(16, whole, "certificateRequest", 0);
  if (whole.end < der.length) return derFault("syntax", "trailing data");
  const parts = partsOf(der, whole, [
    [sequenceTag, "tbsCertificateRequest"],
    [sequenceTag, "AlgorithmIdentifier"],
    [0x03, "BitString"],
  ]);
  if (typeof parts === "string") return parts;
  const [info = whole, algorithm = whole, signature = whole] = parts;
  const fields = partsOf(der, info, [
    [0x02, "int"],
    [undefined, "RawValue"],
    [sequenceTag, "publicKeyInfo"],
  ]);
  if (typeof fields === "string") return fields;
  const [, subject = info, keyInfo = info] = fields;
  if (subject.tag !== sequenceTag) return tagMismatch(16, subject, "RDNSequence", subject.start);
  const identifiers = partsOf(der, algorithm, [[0x06, "ObjectIdentifier"]]);
  if (typeof identifiers === "string") return identifiers;
  const [identifier = algorithm] = identifiers;
  const key = publicKeyOf(der.subarray(keyInfo.start, keyInfo.end));
  if (key === undefined) return "x509: failed to parse public key";
  const oid = der.toString("hex", identifier.content, identifier.end);
  // The first byte of a bit string is the number of its unused bits.
  return signatureFault(oid, key, der.subarray(info.start, info.end), der.subarray(signature.content + 1, signature.end));
}

function signatureFault(oid: string, key: KeyObject, signed: Buffer, signature: Buffer): string | undefined {
  const unverified = "x509: cannot verify signature";
  const weak = Object.hasOwn(insecure, oid) ? insecure[oid] : undefined;
  if (weak !== undefined) return `${unverified}: insecure algorithm ${weak}`;
  const algorithm = Object.hasOwn(algorithms, oid) ? algorithms[oid] : undefined;
  const given = keyTypes[key.asymmetricKeyType ?? ""];
  if (algorithm === undefined || given === undefined) return `${unverified}: algorithm unimplemented`;
  const wanted = keyTypes[algorithm.keyType];
  if (wanted !== given) {
    return `x509: signature algorithm specifies an ${wanted?.name} public key, but have public key of type ${given.goType}`;
  }
  if ((key.asymmetricKeyDetails?.modulusLength ?? 0) > maxModulusBits) {
    return `${unverified}: RSA keys must have at most ${maxModulusBits} bits`;
  }
  return verify(algorithm.hash, signed, key, signature) ? undefined : given.failure;
}

function publicKeyOf(der: Buffer): KeyObject | undefined {
  try {
    return createPublicKey({ key: der, format: "der", type: "spki" });
  } catch {
    return undefined;
  }
}

/** The first elements of a sequence with their expected tags and Go types; a fault as a string. */
function partsOf(
  der: Buffer,
  sequence: DerElement,
  expected: readonly (readonly [tag: number | undefined, type: string])[],
): readonly DerElement[] | string {
  const parts: DerElement[] = [];
  let at = sequence.content;
  for (const [tag, type] of expected) {
    if (at === sequence.end) return derFault("syntax", "sequence truncated");
    const part = readDer(der.subarray(0, sequence.end), at);
    if (typeof part === "string") return part;
    if (tag !== undefined && part.tag !== tag) return tagMismatch(tag & 0x1f, part, type, sequence.content);
    parts.push(part);
    at = part.end;
  }
  return parts;
}
