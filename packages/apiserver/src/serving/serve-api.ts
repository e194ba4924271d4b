import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startPolicyTypeChecks } from "../admission/policies/policy-type-checks.ts";
import { publishAuthenticationConfig } from "../aggregation/authentication-config.ts";
import { startCertificateRenewal } from "../auth/certificates/certificate-renewal.ts";
import { writeKubeconfig } from "../auth/certificates/kubeconfig.ts";
import { ensurePki, type Pki } from "../auth/certificates/pki.ts";
import { Closers } from "../closers.ts";
import type { HttpServer } from "../http/server/http-server-options.ts";
import { startStorageMigration } from "../storage-migration/storage-migration.ts";
import { type Backend, openBackend } from "./backend.ts";
import { publishKubernetesService } from "./kubernetes-service.ts";
import { startListener, tlsOf } from "./listener.ts";
import { addressesOf, type ServerAddresses } from "./server-addresses.ts";
import type { ServedApi, ServeApiOptions } from "./serve-options.ts";

/**
 * Opens the storage, creates missing keys and certificates, listens on HTTPS, and writes the kubeconfig. Certificates are renewed before
 * they expire without closing connections.
 *
 * **Errors**: rejects if another process uses the directory, or with a `ListenError` if the port is in use.
 */
export async function serveApi(options: ServeApiOptions): Promise<ServedApi> {
  const closers = new Closers();
  try {
    return await serve(options, closers);
  } catch (error) {
    await closers.abandon();
    throw error;
  }
}

async function serve(options: ServeApiOptions, closers: Closers): Promise<ServedApi> {
  const { dataDir, clock } = options;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const addresses = addressesOf(options);
  const pki = await ensurePki(join(dataDir, "pki"), clock.now(), addresses.hosts);
  const backend = await openBackend(options, { addresses, pki }, closers);
  const { server, state, onError } = backend;
  const listener = await startListener(options, backend);
  const { http } = listener;
  closers.add(() => http.close());
  state.url = http.url;
  await publish(backend, addresses, () => clock.now());
  const context = { ...server, clock, onError };
  for (const controller of [startStorageMigration(context), startPolicyTypeChecks(context)])
    closers.add(() => controller.stop());
  state.isReady = true;
  const kubeconfig = join(dataDir, "kubeconfig");
  await writeAdminKubeconfig(kubeconfig, http, pki);
  const renewal = startCertificateRenewal({
    directory: join(dataDir, "pki"),
    hosts: addresses.hosts,
    pki,
    clock,
    async use(renewed) {
      http.setTls(tlsOf(renewed));
      state.pki = renewed;
      await writeAdminKubeconfig(kubeconfig, http, renewed);
      await publishAuthenticationConfig(server.handle, renewed);
    },
    onError,
  });
  closers.add(() => renewal.stop());
  return { server, url: http.url, socketPath: listener.socketPath, kubeconfig, close: () => closers.close() };
}

/** Publishes what Pods and extension API servers need to find and to trust this server. */
async function publish({ server, state, aggregator }: Backend, addresses: ServerAddresses, now: () => number): Promise<void> {
  const { clusterIp, serviceCidr } = addresses;
  const { hostname, port } = new URL(state.url);
  const address = hostname.replaceAll(/[[\]]/g, "");
  await publishKubernetesService(server.handle, { clusterIp, serviceCidr, address, port: Number(port), now });
  await publishAuthenticationConfig(server.handle, state.pki);
  await aggregator.connect(server);
}

function writeAdminKubeconfig(path: string, { url }: HttpServer, { authority, admin }: Pki): Promise<void> {
  return writeKubeconfig(path, { server: url, authority: authority.certificate, credentials: admin });
}
