import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery";
import { createAuthenticator } from "./auth/authenticator.ts";
import { writeKubeconfig } from "./auth/kubeconfig.ts";
import { ensurePki } from "./auth/pki.ts";
import { createDiscoveryHandler } from "./discovery/discovery-handler.ts";
import type { RandomSource } from "./endpoints/random-source.ts";
import { startHttpServer } from "./http/http-server.ts";
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
  /** Subresources that are no view of their object, by `<group>/<plural>/<subresource>`: `/pods/log`. Default: none. */
  readonly subresources?: NonNullable<ApiServerOptions["subresources"]>;
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
 * Opens the storage, makes keys and certificates that are missing, listens by HTTPS, and writes the kubeconfig.
 *
 * **Errors**: rejects, naming the folder, when another process has it; naming the port, when it is in use.
 */
export async function serveApi(options: ServeApiOptions): Promise<ServedApi> {
  const { dataDir, bindAddress = "127.0.0.1", clock, random, onError } = options;
  const now = (): number => clock.now();
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const isLoopback = bindAddress === "127.0.0.1" || bindAddress === "::1";
  const pki = await ensurePki(join(dataDir, "pki"), now(), isLoopback ? [] : [bindAddress]);
  const server = await createApiServer({
    storage: { dataDir: join(dataDir, "storage") },
    clock,
    random,
    signingKey: pki.tokenKey,
    nonResource: (resources) => createDiscoveryHandler(resources),
    ...(options.subresources === undefined ? {} : { subresources: options.subresources }),
    ...(onError === undefined ? {} : { onError }),
  });
  try {
    const http = await startHttpServer({
      handle: server.handle,
      authenticate: createAuthenticator({ tokens: [(token) => server.tokens.verify(token)?.user], authorizer: server.authorizer, now }),
      tls: { certificate: pki.server.certificate, key: pki.server.key, clientAuthority: pki.authority.certificate },
      toTable,
      bindAddress,
      port: options.port,
      clock,
      newId: randomUUID,
      ...(onError === undefined ? {} : { onError }),
    });
    const kubeconfig = join(dataDir, "kubeconfig");
    await writeKubeconfig(kubeconfig, { server: http.url, authority: pki.authority.certificate, credentials: pki.admin });
    return {
      server,
      url: http.url,
      kubeconfig,
      async close() {
        await http.close();
        await server.close();
      },
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}
