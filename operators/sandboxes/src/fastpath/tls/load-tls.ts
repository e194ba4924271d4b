import { isIP } from "node:net";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import type { ServerContext } from "@keelson/operator";
import { type FastPathAccess, fastPathFlags } from "../fastpath-flags.ts";
import { ensureOwnCertificate } from "./own-certificate.ts";
import { readCertificateFiles, ServingTls, type TlsMaterial } from "./serving-tls.ts";

/** Loads the certificate that the flags select; undefined: no TLS. `domains` are names that its own certificate covers as well. */
export async function loadTls(
  { client, clock, log, dataDir, flags }: ServerContext,
  { tls }: FastPathAccess,
  domains: readonly string[],
): Promise<{ readonly serving: ServingTls; readonly material: TlsMaterial } | undefined> {
  if (tls === undefined) return undefined;
  const { files } = tls;
  const hosts = [...serverHosts(fastPathFlags.bindAddress.read(flags), process.env.POD_NAMESPACE), ...domains];
  const certificate = (): Promise<KeyPair> =>
    files === undefined ? ensureOwnCertificate({ dataDir, hosts, clock }) : readCertificateFiles(files.certificate, files.key);
  const serving = new ServingTls({ certificate, client, clock, log });
  return { serving, material: await serving.load() };
}

/** Names and addresses under which clients reach the fast path: those of this machine, and of the chart's Service. */
function serverHosts(bindAddress: string, namespace: string | undefined): readonly string[] {
  const service = "keelson-sandboxes";
  const inCluster =
    namespace === undefined
      ? []
      : ["", `.${namespace}`, `.${namespace}.svc`, `.${namespace}.svc.cluster.local`].map((suffix) => `${service}${suffix}`);
  const isOne = isIP(bindAddress) !== 0 && !["0.0.0.0", "::"].includes(bindAddress);
  return [...new Set(["localhost", "127.0.0.1", "::1", ...(isOne ? [bindAddress] : []), ...inCluster])];
}
