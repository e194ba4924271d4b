import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { createAuthenticator } from "./auth/authentication/authenticator.ts";
import { startCertificateRenewal } from "./auth/certificates/certificate-renewal.ts";
import { writeKubeconfig } from "./auth/certificates/kubeconfig.ts";
import { ensurePki, type Pki } from "./auth/certificates/pki.ts";
import { createStaticTokens } from "./auth/authentication/static-tokens.ts";
import { createDiscoveryHandler } from "./discovery/discovery-handler.ts";
import type { RandomSource } from "./endpoints/random-source.ts";
import { type ServerTls, startHttpServer } from "./http/http-server.ts";
import type { UserInfo } from "./registry/served-resource.ts";
import { type ApiServer, type ApiServerOptions, createApiServer } from "./server.ts";
import { toTable } from "./table/table.ts";

/** Options of {@link serveApi}. */
export interface ServeApiOptions {
  /** Where everything is kept: `storage/`, `pki/` and `kubeconfig`. */
  readonly dataDir: string;
  /** Default `127.0.0.1`: nobody but this machine. */
  readonly bindAddress?: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly clock: Clock;
  readonly random: RandomSource;
  /** Settings of the storage in `dataDir/storage`. Default: durable writes, ten minutes or 100 000 changes of history for watches. */
  readonly storage?: Omit<Extract<ApiServerOptions["storage"], { dataDir: string }>, "dataDir">;
  /** Bearer tokens that are valid as long as the server runs, and whose they are. Each has 16 characters or more. Default: none. */
  readonly staticTokens?: ReadonlyMap<string, UserInfo>;
  /** Lets requests without credentials in as `system:anonymous`, for whom RBAC decides. Default false: they are answered 401. */
  readonly anonymous?: boolean;
  /** Subresources that are no view of their object, by `<group>/<plural>/<subresource>`: `/pods/log`. Default: none. */
  readonly subresources?: NonNullable<ApiServerOptions["subresources"]>;
  /** Whether Pods need a service account that is there, which a controller has to make in each namespace. Default false. */
  readonly requiresServiceAccounts?: boolean;
  /** The first two parts of Services' addresses, which have to be this machine's. Default `127.200`. */
  readonly serviceNetwork?: string;
  /** What went wrong where nobody waits for an answer. Default: ignored. */
  readonly onError?: (error: unknown) => void;
}

/** An API server that listens. */
export interface ServedApi {
  readonly server: ApiServer;
  /** `https://127.0.0.1:6443`. */
  readonly url: string;
  /** Path of a kubeconfig for a user who may do everything. */
  readonly kubeconfig: string;
  close(): Promise<void>;
}

/**
 * Opens the storage, makes keys and certificates that are missing, listens by HTTPS, and writes the kubeconfig. Certificates are
 * renewed before they expire, and connections go on.
 *
 * **Errors**: rejects, naming the folder, when another process has it; naming the port, when it is in use.
 */
export async function serveApi(options: ServeApiOptions): Promise<ServedApi> {
  const { dataDir, bindAddress = "127.0.0.1", clock, random, onError } = options;
  const now = (): number => clock.now();
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const isLoopback = bindAddress === "127.0.0.1" || bindAddress === "::1";
  const hosts = isLoopback ? [] : [bindAddress];
  const pki = await ensurePki(join(dataDir, "pki"), now(), hosts);
  const server = await createApiServer({
    storage: { ...options.storage, dataDir: join(dataDir, "storage") },
    clock,
    random,
    signingKey: pki.tokenKey,
    nonResource: (resources) => createDiscoveryHandler(resources),
    ...(options.subresources === undefined ? {} : { subresources: options.subresources }),
    ...(options.requiresServiceAccounts === undefined ? {} : { requiresServiceAccounts: options.requiresServiceAccounts }),
    ...(options.serviceNetwork === undefined ? {} : { serviceNetwork: options.serviceNetwork }),
    ...(onError === undefined ? {} : { onError }),
  });
  try {
    const http = await startHttpServer({
      handle: server.handle,
      authenticate: createAuthenticator({
        tokens: [createStaticTokens(options.staticTokens ?? []), (token) => server.tokens.verify(token)?.user],
        authorizer: server.authorizer,
        now,
        anonymous: options.anonymous ?? false,
      }),
      tls: tlsOf(pki),
      toTable,
      bindAddress,
      port: options.port,
      clock,
      newId: randomUUID,
      ...(onError === undefined ? {} : { onError }),
    });
    const kubeconfig = join(dataDir, "kubeconfig");
    const write = ({ authority, admin }: Pki): Promise<void> =>
      writeKubeconfig(kubeconfig, { server: http.url, authority: authority.certificate, credentials: admin });
    await write(pki);
    const renewal = startCertificateRenewal({
      directory: join(dataDir, "pki"),
      hosts,
      pki,
      clock,
      async use(renewed) {
        http.setTls(tlsOf(renewed));
        await write(renewed);
      },
      onError,
    });
    return {
      server,
      url: http.url,
      kubeconfig,
      async close() {
        await renewal.stop();
        await http.close();
        await server.close();
      },
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

function tlsOf({ server, authority }: Pki): ServerTls {
  return { ...server, clientAuthority: authority.certificate };
}
