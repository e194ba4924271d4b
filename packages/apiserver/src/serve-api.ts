import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { startPolicyTypeChecks } from "./admission/policies/policy-type-checks.ts";
import { Aggregator } from "./aggregation/aggregator.ts";
import { publishAuthenticationConfig } from "./aggregation/authentication-config.ts";
import { type AuditLog, type AuditLogFile, openAuditLog } from "./audit/audit-log.ts";
import type { AuditMetrics } from "./audit/audit-metrics.ts";
import { Auditor } from "./audit/auditor.ts";
import { readAuditPolicyFile } from "./audit/read-policy.ts";
import { createAuthenticator } from "./auth/authentication/authenticator.ts";
import { startCertificateRenewal } from "./auth/certificates/certificate-renewal.ts";
import { writeKubeconfig } from "./auth/certificates/kubeconfig.ts";
import { ensurePki, type Pki } from "./auth/certificates/pki.ts";
import { createStaticTokens } from "./auth/authentication/static-tokens.ts";
import { createDiscoveryHandler } from "./discovery/discovery-handler.ts";
import type { HealthChecks } from "./discovery/health.ts";
import { issuerDiscovery, keysOrigin } from "./discovery/issuer-discovery.ts";
import { ApiServerMetrics } from "./discovery/metrics.ts";
import type { RandomSource } from "./endpoints/random-source.ts";
import { type KubeletAccess, withKubelets } from "./endpoints/proxy/kubelet-proxy.ts";
import { FlowController } from "./flowcontrol/flow-controller.ts";
import { startHttpServer } from "./http/http-server.ts";
import type { HttpServer, ServerTls } from "./http/http-server-options.ts";
import { publishKubernetesService } from "./kubernetes-service.ts";
import type { UserInfo } from "./registry/served-resource.ts";
import { type ApiServer, type ApiServerOptions, createApiServer } from "./server.ts";
import { metricsKinds, type MetricsSource } from "./registry/kinds/node/metrics.ts";
import { startStorageMigration } from "./storage-migration/storage-migration.ts";
import { toTable } from "./table/table.ts";

/** Options of {@link serveApi}. */
export interface ServeApiOptions {
  /** Directory for `storage/`, `pki/` and `kubeconfig`. */
  readonly dataDir: string;
  /** Default `127.0.0.1`. */
  readonly bindAddress?: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly clock: Clock;
  readonly random: RandomSource;
  /** Settings of the storage in `dataDir/storage`. Default: durable writes, 5 minutes or 100,000 changes of watch history. */
  readonly storage?: Omit<Extract<ApiServerOptions["storage"], { dataDir: string }>, "dataDir">;
  /** Static bearer tokens and their users. Each token has at least 16 characters. Default: none. */
  readonly staticTokens?: ReadonlyMap<string, UserInfo>;
  /**
   * Path of a Unix socket that serves HTTP without TLS to holders of static tokens, and to no one else: neither anonymous requests nor other
   * tokens are accepted. Its folder is open to this user only. Default: no socket.
   */
  readonly socketPath?: string;
  /** Accepts requests without credentials as `system:anonymous`, subject to RBAC. Default true; otherwise they fail with 401. */
  readonly anonymous?: boolean;
  /** Subresources that are not views of their object, by `<group>/<plural>/<subresource>`: `/pods/log`. Default: none. */
  readonly subresources?: NonNullable<ApiServerOptions["subresources"]>;
  /** Headers that tell the kubelet of a Pod on another node about the sender of a request. Default: none. */
  readonly kubeletHeaders?: KubeletAccess["headersFor"];
  /** Serves current resource usage as metrics.k8s.io/v1beta1, for `kubectl top`. Default: the group is not served. */
  readonly metrics?: MetricsSource;
  /** Additional admission steps. Default: none. */
  readonly admission?: NonNullable<ApiServerOptions["admission"]>;
  /** Whether Pods need an existing service account, which a controller has to create in each namespace. Default false. */
  readonly requiresServiceAccounts?: boolean;
  /** The first two octets of Service addresses, which must be local to this machine. Default `127.200`. */
  readonly serviceNetwork?: string;
  /** Seats of API Priority and Fairness. Default 200. */
  readonly seats?: number;
  /** Records requests over HTTP. Default: none. */
  readonly audit?: AuditOptions;
  /** Called with background errors. Default: ignored. */
  readonly onError?: (error: unknown) => void;
}

/** The audit log of an API server. */
export interface AuditOptions {
  /** Path of an audit.k8s.io/v1 Policy in YAML or JSON. */
  readonly policyFile: string;
  readonly log: AuditLogFile;
}

/** A listening API server. */
export interface ServedApi {
  readonly server: ApiServer;
  /** `https://127.0.0.1:6443`. */
  readonly url: string;
  /** Path of the Unix socket. Undefined if none was requested or it could not be created. */
  readonly socketPath: string | undefined;
  /** Path of the cluster administrator's kubeconfig. */
  readonly kubeconfig: string;
  close(): Promise<void>;
}

/**
 * Opens the storage, creates missing keys and certificates, listens on HTTPS, and writes the kubeconfig. Certificates are renewed before
 * they expire without closing connections.
 *
 * **Errors**: rejects if another process uses the directory, or with a `ListenError` if the port is in use.
 */
export async function serveApi(options: ServeApiOptions): Promise<ServedApi> {
  const { dataDir, bindAddress = "127.0.0.1", clock, random, onError } = options;
  const now = (): number => clock.now();
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const isLoopback = bindAddress === "127.0.0.1" || bindAddress === "::1";
  const clusterIp = `${options.serviceNetwork ?? "127.200"}.0.1`;
  const hosts = isLoopback ? [clusterIp] : [bindAddress, clusterIp];
  const pki = await ensurePki(join(dataDir, "pki"), now(), hosts);
  const metrics = new ApiServerMetrics();
  const audit = options.audit && (await openAudit(options.audit, { clock, metrics: metrics.audit, onError }));
  let { frontProxy, kubeletClient } = pki;
  const aggregator = new Aggregator({
    clock,
    random,
    frontProxy: () => frontProxy,
    onError: onError ?? (() => undefined),
  });
  const kubelets = {
    credentials: () => kubeletClient,
    headersFor: options.kubeletHeaders ?? (() => ({})),
    ownPort: () => (url === "" ? 0 : Number(new URL(url).port)),
  };
  const controllers: { stop(): Promise<void> }[] = [];
  let isReady = false;
  let url = "";
  const opening = createApiServer({
    storage: { ...options.storage, dataDir: join(dataDir, "storage") },
    clock,
    random,
    signingKey: pki.tokenKey,
    webhookMetrics: metrics.webhooks,
    nonResource: (resources) =>
      createDiscoveryHandler(resources, {
        checks: healthChecks(
          () => server.store.get(""),
          () => isReady,
        ),
        metrics: () => metrics.serve(),
        remotes: aggregator,
        issuer: (path, host) => issuerDiscovery(path, server.tokens, keysOrigin(host, clusterIp) ?? url),
      }),
    delegate: (request, info) => aggregator.delegate(request, info),
    ...(options.subresources === undefined ? {} : { subresources: withKubelets(options.subresources, kubelets) }),
    ...(options.metrics === undefined ? {} : { kinds: metricsKinds(options.metrics) }),
    ...(options.admission === undefined ? {} : { admission: options.admission }),
    ...(options.requiresServiceAccounts === undefined ? {} : { requiresServiceAccounts: options.requiresServiceAccounts }),
    ...(options.serviceNetwork === undefined ? {} : { serviceNetwork: options.serviceNetwork }),
    ...(onError === undefined ? {} : { onError }),
  });
  const server = await opening.catch(async (error: unknown) => {
    await audit?.log.close();
    throw error;
  });
  const flow = new FlowController({
    store: server.store,
    clock,
    ...(options.seats === undefined ? {} : { seats: options.seats }),
  });
  let listening: HttpServer | undefined;
  let { socketPath } = options;
  const staticTokens = createStaticTokens(options.staticTokens ?? []);
  try {
    const http = await startHttpServer({
      flow,
      onRequest: (info, code, durationMs) => metrics.record(info, code, durationMs),
      handle: server.handle,
      authenticate: createAuthenticator({
        tokens: [staticTokens, (token) => server.tokens.verify(token)?.user],
        authorizer: server.authorizer,
        now,
        anonymous: options.anonymous ?? true,
      }),
      tls: tlsOf(pki),
      toTable,
      bindAddress,
      port: options.port,
      ...(socketPath === undefined
        ? {}
        : {
            localSocket: {
              path: socketPath,
              authenticate: createAuthenticator({
                tokens: [staticTokens],
                authorizer: server.authorizer,
                now,
                anonymous: false,
              }),
              onFailure(error) {
                socketPath = undefined;
                onError?.(error);
              },
            },
          }),
      clock,
      newId: randomUUID,
      isAggregated: (path) => aggregator.includes(path),
      ...(audit === undefined ? {} : { auditor: audit.auditor }),
      ...(onError === undefined ? {} : { onError }),
    });
    listening = http;
    metrics.observe({
      flow: () => flow.usage(),
      watches: () => server.openWatches,
      revision: () => server.store.revision,
    });
    url = http.url;
    const { hostname, port } = new URL(url);
    const address = hostname.replaceAll(/[[\]]/g, "");
    await publishKubernetesService(server.handle, {
      clusterIp,
      serviceCidr: `${options.serviceNetwork ?? "127.200"}.0.0/16`,
      address,
      port: Number(port),
      now,
    });
    await publishAuthenticationConfig(server.handle, pki);
    await aggregator.connect(server);
    const context = { ...server, clock, onError: onError ?? (() => undefined) };
    controllers.push(startStorageMigration(context), startPolicyTypeChecks(context));
    isReady = true;
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
        ({ frontProxy, kubeletClient } = renewed);
        await write(renewed);
        await publishAuthenticationConfig(server.handle, renewed);
      },
      onError,
    });
    return {
      server,
      url: http.url,
      socketPath,
      kubeconfig,
      async close() {
        await renewal.stop();
        await http.close();
        await audit?.log.close();
        await stopAll(controllers);
        await aggregator.close();
        flow.close();
        metrics.close();
        await server.close();
      },
    };
  } catch (error) {
    await listening?.close();
    flow.close();
    metrics.close();
    await stopAll(controllers);
    await aggregator.close();
    await server.close();
    await audit?.log.close();
    throw error;
  }
}

/** Reads the policy and opens the log. Rejects with an `AuditError`. */
async function openAudit(
  { policyFile, log: file }: AuditOptions,
  context: { readonly clock: Clock; readonly metrics: AuditMetrics; readonly onError: ServeApiOptions["onError"] },
): Promise<{ readonly auditor: Auditor; readonly log: AuditLog }> {
  const { clock, metrics, onError = () => undefined } = context;
  const policy = await readAuditPolicyFile(policyFile);
  const log = await openAuditLog({ file, clock, metrics, onError });
  return { auditor: new Auditor({ policy, clock, metrics, write: log.write }), log };
}

async function stopAll(controllers: readonly { stop(): Promise<void> }[]): Promise<void> {
  await Promise.all(controllers.map((each) => each.stop()));
}

/** The health checks, under kube-apiserver's names: `etcd` reads from the storage. */
function healthChecks(read: () => unknown, isReady: () => boolean): HealthChecks {
  const whenReady = (): string | undefined => (isReady() ? undefined : "the server is starting");
  return {
    etcd: () => void read(),
    "poststarthook/bootstrap-controller": whenReady,
    "poststarthook/priority-and-fairness-config-producer": whenReady,
    "poststarthook/rbac/bootstrap-roles": whenReady,
  };
}

function tlsOf({ server, authority }: Pki): ServerTls {
  return { ...server, clientAuthority: authority.certificate };
}
