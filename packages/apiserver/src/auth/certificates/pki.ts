import { createPrivateKey, randomBytes, X509Certificate } from "node:crypto";
import { chmod, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import {
  certificateDefect,
  createCertificateAuthority,
  generateSigningKey,
  issueCertificate,
  type KeyPair,
} from "@keelson/api-machinery/certificates";

/** The keys and certificates of a server. */
export interface Pki {
  /** Signs server and client certificates. */
  readonly authority: KeyPair;
  /** The certificate of the HTTPS server. */
  readonly server: KeyPair;
  /** The client certificate of the user `kubernetes-admin` in the group `system:masters`. */
  readonly admin: KeyPair;
  /** Signs {@link frontProxy}. Extension API servers trust its certificate. */
  readonly frontProxyAuthority: KeyPair;
  /** The client certificate with which this server passes requests on to extension API servers. */
  readonly frontProxy: KeyPair;
  /** The client certificate with which this server identifies itself to kubelets. */
  readonly kubeletClient: KeyPair;
  /** Private key (PEM) that signs service-account tokens. */
  readonly tokenKey: string;
}

/** Hosts and addresses that the server's certificate always covers. */
export const serverHosts: readonly string[] = [
  "localhost",
  "127.0.0.1",
  "::1",
  "kubernetes",
  "kubernetes.default",
  "kubernetes.default.svc",
  "kubernetes.default.svc.cluster.local",
];

/** The common name of the certificate with which requests are passed on. */
export const frontProxyUser = "front-proxy-client";
/** The user in the admin kubeconfig. */
const adminUser = "kubernetes-admin";
/** The group that may do everything, regardless of RBAC. */
export const mastersGroup = "system:masters";
/** The group of {@link Pki.kubeletClient}, which may use the API of kubelets and nothing else. */
export const kubeletClientsGroup = "keelson:kubelet-clients";

const dayMs = 24 * 60 * 60 * 1000;
const authorityLifeMs = 10 * 365 * dayMs;
const leafLifeMs = 365 * dayMs;
/** An authority must outlive the leaf certificates it signs. */
const authorityRenewMs = leafLifeMs + 30 * dayMs;
const leafRenewMs = 30 * dayMs;
/** Tolerates clock differences between machines. */
const backdateMs = 60 * 60 * 1000;

/**
 * Loads the keys and certificates in `directory`. Creates those that are missing, unreadable, for other hosts, or expire within 30 days
 * (395 for the authority). A new authority also replaces everything the old one signed. Files and directory are readable by their owner
 * only. The next run completes an interrupted one.
 *
 * @param hosts additional host names and addresses of the server
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
  const isValid = (pair: KeyPair): boolean => certificateDefect(pair, authority, now, now + leafRenewMs) === undefined;
  const server = await ensurePair(
    directory,
    "apiserver",
    (pair) => isValid(pair) && coversHosts(pair.certificate, allHosts),
    () => issueCertificate(authority, { commonName: "kube-apiserver", usage: "server", hosts: allHosts, ...leaf }),
  );
  const admin = await ensurePair(directory, "admin", isValid, () =>
    issueCertificate(authority, { commonName: adminUser, organizations: [mastersGroup], usage: "client", ...leaf }),
  );
  const frontProxyAuthority = await ensurePair(
    directory,
    "front-proxy-ca",
    (pair) => certificateDefect(pair, pair, now, now + authorityRenewMs) === undefined,
    () => createCertificateAuthority("keelson-front-proxy-ca", notBefore, new Date(now + authorityLifeMs)),
  );
  const frontProxy = await ensurePair(
    directory,
    "front-proxy-client",
    (pair) => certificateDefect(pair, frontProxyAuthority, now, now + leafRenewMs) === undefined,
    () => issueCertificate(frontProxyAuthority, { commonName: frontProxyUser, usage: "client", ...leaf }),
  );
  const isKubeletClient = (pair: KeyPair): boolean =>
    isValid(pair) && !new X509Certificate(pair.certificate).subject.includes(mastersGroup);
  const kubeletClient = await ensurePair(directory, "apiserver-kubelet-client", isKubeletClient, () =>
    issueCertificate(authority, {
      commonName: "kube-apiserver-kubelet-client",
      organizations: [kubeletClientsGroup],
      usage: "client",
      ...leaf,
    }),
  );
  const tokenKey = (await readPrivateKey(join(directory, "sa.key"))) ?? (await generateSigningKey());
  await writePrivate(join(directory, "sa.key"), tokenKey);
  return { authority, server, admin, frontProxyAuthority, frontProxy, kubeletClient, tokenKey };
}

/** Issues a client certificate for a user and groups, valid for one year. */
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
 * Writes a file atomically, readable by its owner only. Does nothing if the content is unchanged.
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
    // On a full disk, every start would otherwise leave another empty file.
    await rm(temporary, { force: true });
    throw error;
  }
}

/** A key that exists and cannot be used. It is not replaced, because that would invalidate everything that it has signed. */
class PkiError extends Error {
  override readonly name = "PkiError";
  readonly code = "InvalidKey";
}

async function readPrivateKey(path: string): Promise<string | undefined> {
  const pem = await readOptional(path);
  if (pem === undefined) return undefined;
  try {
    createPrivateKey(pem);
    return pem;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PkiError(
      `${path} is not a valid private key (${reason}): restore it, or delete it to generate a new one, which invalidates all service account tokens`,
      { cause: error },
    );
  }
}

async function ensurePair(
  directory: string,
  name: string,
  isValid: (pair: KeyPair) => boolean,
  create: () => Promise<KeyPair>,
): Promise<KeyPair> {
  const certificatePath = join(directory, `${name}.crt`);
  const keyPath = join(directory, `${name}.key`);
  const [certificate, key] = await Promise.all([readOptional(certificatePath), readOptional(keyPath)]);
  if (certificate !== undefined && key !== undefined && isValid({ certificate, key })) {
    await Promise.all([chmod(certificatePath, 0o600), chmod(keyPath, 0o600)]);
    return { certificate, key };
  }
  const created = await create();
  // A crash between the two writes leaves a mismatched key, which the next start detects and replaces.
  await writePrivate(keyPath, created.key);
  await writePrivate(certificatePath, created.certificate);
  return created;
}

function coversHosts(certificate: string, hosts: readonly string[]): boolean {
  const parsed = new X509Certificate(certificate);
  return hosts.every((host) => (isIP(host) === 0 ? parsed.checkHost(host, { wildcards: false }) : parsed.checkIP(host)));
}

async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
