import { randomBytes, X509Certificate } from "node:crypto";
import { chmod, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  certificateDefect,
  createCertificateAuthority,
  generateSigningKey,
  issueCertificate,
  type KeyPair,
} from "./certificates.ts";

/** Everything that the server proves its identity with, and that others prove theirs to it. */
export interface Pki {
  /** Signs server and client certificates. */
  readonly authority: KeyPair;
  /** Of the HTTPS server. */
  readonly server: KeyPair;
  /** Of the user `kubernetes-admin` in the group `system:masters`. */
  readonly admin: KeyPair;
  /** Private key (PEM) that signs service-account tokens. */
  readonly tokenKey: string;
}

/** Names and addresses that the server's certificate is always valid for. */
export const serverHosts: readonly string[] = [
  "localhost",
  "127.0.0.1",
  "::1",
  "kubernetes",
  "kubernetes.default",
  "kubernetes.default.svc",
  "kubernetes.default.svc.cluster.local",
];

/** Name of the user that the kubeconfig's certificate stands for. */
export const adminUser = "kubernetes-admin";
/** The group that may do everything, whatever RBAC says. */
export const mastersGroup = "system:masters";

const dayMs = 24 * 60 * 60 * 1000;
const authorityLifeMs = 10 * 365 * dayMs;
const leafLifeMs = 365 * dayMs;
/** An authority must outlive the leaves that it signs. */
const authorityRenewMs = leafLifeMs + 30 * dayMs;
const leafRenewMs = 30 * dayMs;
/** Clocks of containers on the same machine differ a little. */
const backdateMs = 60 * 60 * 1000;

/**
 * Reads the keys and certificates below `directory`, and makes those that are missing, near their expiry (30 days; the
 * authority 395), unreadable, or made for other hosts. A new authority replaces what the old one signed. Files and their
 * directory are readable by their owner only. An interrupted run is completed by the next one.
 *
 * @param hosts further host names and addresses that the server is reached by.
 */
export async function ensurePki(directory: string, now: number, hosts: readonly string[] = []): Promise<Pki> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await chmod(directory, 0o700);
  const notBefore = new Date(now - backdateMs);
  const leaf = { notBefore, notAfter: new Date(now + leafLifeMs) };
  const allHosts = [...new Set([...serverHosts, ...hosts])];

  const authority = await ensurePair(
    directory,
    "ca",
    (pair) => certificateDefect(pair, pair, now, now + authorityRenewMs) === undefined,
    () => createCertificateAuthority("keelson-ca", notBefore, new Date(now + authorityLifeMs)),
  );
  const isGood = (pair: KeyPair): boolean => certificateDefect(pair, authority, now, now + leafRenewMs) === undefined;
  const server = await ensurePair(
    directory,
    "apiserver",
    (pair) => isGood(pair) && coversHosts(pair.certificate, allHosts),
    () => issueCertificate(authority, { commonName: "kube-apiserver", usage: "server", hosts: allHosts, ...leaf }),
  );
  const admin = await ensurePair(directory, "admin", isGood, () =>
    issueCertificate(authority, { commonName: adminUser, organizations: [mastersGroup], usage: "client", ...leaf }),
  );
  const tokenKey = (await readOptional(join(directory, "sa.key"))) ?? (await generateSigningKey());
  await writePrivate(join(directory, "sa.key"), tokenKey);
  return { authority, server, admin, tokenKey };
}

/** A client certificate for a user and groups, valid for a year: what `kubectl config set-credentials` takes. */
export function issueClientCertificate(
  pki: Pki,
  user: { readonly name: string; readonly groups?: readonly string[] },
  now: number,
): Promise<KeyPair> {
  return issueCertificate(pki.authority, {
    commonName: user.name,
    organizations: user.groups ?? [],
    usage: "client",
    notBefore: new Date(now - backdateMs),
    notAfter: new Date(now + leafLifeMs),
  });
}

/**
 * Writes a file that only its owner may read, so that a reader sees the old content or the new, never a part. Does
 * nothing when the content is the same.
 */
export async function writePrivate(path: string, content: string): Promise<void> {
  if ((await readOptional(path)) === content) {
    await chmod(path, 0o600);
    return;
  }
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await writeFile(temporary, content, { mode: 0o600, flush: true });
    await rename(temporary, path);
  } catch (error) {
    // On a full disk the empty file would stay, and one more with every start.
    await rm(temporary, { force: true });
    throw error;
  }
}

async function ensurePair(
  directory: string,
  name: string,
  isGood: (pair: KeyPair) => boolean,
  make: () => Promise<KeyPair>,
): Promise<KeyPair> {
  const certificatePath = join(directory, `${name}.crt`);
  const keyPath = join(directory, `${name}.key`);
  const [certificate, key] = await Promise.all([readOptional(certificatePath), readOptional(keyPath)]);
  if (certificate !== undefined && key !== undefined && isGood({ certificate, key })) {
    await Promise.all([chmod(certificatePath, 0o600), chmod(keyPath, 0o600)]);
    return { certificate, key };
  }
  const made = await make();
  // A crash between the two leaves a key that does not match; the next start sees that and makes both anew.
  await writePrivate(keyPath, made.key);
  await writePrivate(certificatePath, made.certificate);
  return made;
}

function coversHosts(certificate: string, hosts: readonly string[]): boolean {
  const parsed = new X509Certificate(certificate);
  return hosts.every((host) => parsed.checkHost(host, { wildcards: false }) ?? parsed.checkIP(host));
}

async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
