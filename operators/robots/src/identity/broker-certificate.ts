import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { certificateDefect, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { ignoreMissing } from "./ignore-missing.ts";

const yearMs = 365 * 86_400_000;

/** The certificate of an external broker: the one in `dir` if it is for all `hosts` and valid for another year, otherwise a new one. */
export async function brokerCertificate(
  authority: KeyPair,
  { dir, hosts, now }: { readonly dir: string; readonly hosts: readonly string[]; readonly now: number },
): Promise<KeyPair> {
  const stored = await readPair(dir);
  if (stored !== undefined && certificateDefect(stored, authority, now, now + yearMs) === undefined) {
    const certificate = new X509Certificate(stored.certificate);
    const covers = (host: string) => (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host));
    if (hosts.every((host) => covers(host) !== undefined)) return { ...stored, certificate: certificate.toString() };
  }
  return await issueCertificate(authority, {
    ...{ commonName: hosts.at(-1) ?? "localhost", usage: "server", hosts },
    ...{ notBefore: new Date(0), notAfter: new Date(now + 5 * yearMs) },
  });
}

async function readPair(dir: string): Promise<KeyPair | undefined> {
  const certificate = await ignoreMissing(readFile(join(dir, "server.crt"), "utf8"));
  const key = await ignoreMissing(readFile(join(dir, "server.key"), "utf8"));
  return certificate === undefined || key === undefined ? undefined : { certificate, key };
}
