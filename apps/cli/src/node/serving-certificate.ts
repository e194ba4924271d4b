import { X509Certificate } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseJsonObject } from "@keelson/api-machinery";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { writeFileAtomic } from "@keelson/execution/files";

const dayMs = 24 * 60 * 60 * 1000;
const validMs = 365 * dayMs;
const renewMs = 60 * dayMs;

/**
 * The certificate of the kubelet's HTTPS API, of its own authority, as kubelets create one unless the cluster signs it. Stored in
 * `folder`, and replaced at a start within 60 days of its expiry or with another address.
 */
export async function servingCertificate(folder: string, address: string, now = Date.now()): Promise<KeyPair> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, "serving.json");
  const { certificate, key } = parseJsonObject(await readFile(file, "utf8").catch(() => "")) ?? {};
  if (typeof certificate === "string" && typeof key === "string" && isUsable(certificate, address, now)) {
    return { certificate, key };
  }
  const [notBefore, notAfter] = [new Date(now - dayMs), new Date(now + validMs)];
  const authority = await createCertificateAuthority("keelson-node-ca", notBefore, notAfter);
  const issued = await issueCertificate(authority, {
    commonName: address,
    usage: "server",
    hosts: [address],
    notBefore,
    notAfter,
  });
  const pair = { certificate: `${issued.certificate}${authority.certificate}`, key: issued.key };
  await writeFileAtomic(file, JSON.stringify(pair), { durable: true });
  return pair;
}

function isUsable(certificate: string, address: string, now: number): boolean {
  try {
    const parsed = new X509Certificate(certificate);
    return parsed.checkIP(address) !== undefined && Date.parse(parsed.validTo) - now > renewMs;
  } catch {
    return false;
  }
}
