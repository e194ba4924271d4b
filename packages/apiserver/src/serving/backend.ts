import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { Aggregator } from "../aggregation/aggregator.ts";
import { openAuditLog } from "../audit/audit-log.ts";
import type { AuditMetrics } from "../audit/audit-metrics.ts";
import { Auditor } from "../audit/auditor.ts";
import { readAuditPolicyFile } from "../audit/read-policy.ts";
import type { Pki } from "../auth/certificates/pki.ts";
import type { Closers } from "../closers.ts";
import { createDiscoveryHandler } from "../discovery/discovery-handler.ts";
import type { HealthChecks } from "../discovery/health.ts";
import { issuerDiscovery, keysOrigin } from "../discovery/issuer-discovery.ts";
import { ApiServerMetrics } from "../discovery/metrics.ts";
import { withKubelets } from "../endpoints/proxy/kubelet-proxy.ts";
import { FlowController } from "../flowcontrol/flow-controller.ts";
import { metricsKinds } from "../registry/kinds/node/metrics.ts";
import { type ApiServer, type ApiServerOptions, createApiServer } from "../server.ts";
import type { ServerAddresses } from "./server-addresses.ts";
import type { AuditOptions, ServeApiOptions } from "./serve-options.ts";

/** An API server with everything that its listener needs. */
export interface Backend {
  readonly server: ApiServer;
  readonly aggregator: Aggregator;
  readonly metrics: ApiServerMetrics;
  readonly flow: FlowController;
  /** Undefined without an audit log. */
  readonly auditor: Auditor | undefined;
  readonly state: ServingState;
  readonly onError: (error: unknown) => void;
}

/** What changes while the server runs. */
export interface ServingState {
  /** Keys and certificates that are currently in use. */
  pki: Pki;
  /** `https://127.0.0.1:6443`. Empty until the server listens. */
  url: string;
  /** Whether everything is published that clients expect. */
  isReady: boolean;
}

/** Opens the storage and everything behind the listener, and adds to `closers` what must be closed. */
export async function openBackend(
  options: ServeApiOptions,
  { addresses, pki }: { readonly addresses: ServerAddresses; readonly pki: Pki },
  closers: Closers,
): Promise<Backend> {
  const { clock, random, seats, onError = () => undefined } = options;
  const state: ServingState = { pki, url: "", isReady: false };
  const metrics = closers.use(new ApiServerMetrics());
  const context = { clock, metrics: metrics.audit, onError };
  const auditor = options.audit && (await openAudit(options.audit, context, closers));
  const aggregator = new Aggregator({ clock, random, frontProxy: () => state.pki.frontProxy, onError });
  const server: ApiServer = closers.use(
    await createApiServer({
      ...passedOn(options, state),
      clock,
      random,
      signingKey: pki.tokenKey,
      webhookMetrics: metrics.webhooks,
      webhookCertificate: () => state.pki.frontProxy,
      nonResource: (resources) =>
        createDiscoveryHandler(resources, {
          checks: healthChecks(state, () => server.store.get("")),
          metrics: () => metrics.serve(),
          remotes: aggregator,
          issuer: (path, host) => issuerDiscovery(path, server.tokens, keysOrigin(host, addresses.clusterIp) ?? state.url),
        }),
      delegate: (request, info) => aggregator.delegate(request, info),
      onError,
    }),
  );
  // Its last writes go to the server.
  closers.use(aggregator);
  const flow = closers.use(new FlowController({ store: server.store, clock, ...(seats !== undefined && { seats }) }));
  metrics.observe({ flow: () => flow.usage(), watches: () => server.openWatches, revision: () => server.store.revision });
  return { server, aggregator, metrics, flow, auditor, state, onError };
}

/** Options of the server that {@link ServeApiOptions} names as well. */
function passedOn(
  options: ServeApiOptions,
  state: ServingState,
): Pick<ApiServerOptions, "storage" | "subresources" | "kinds" | "admission" | "requiresServiceAccounts" | "serviceNetwork"> {
  const { dataDir, storage, subresources, metrics, admission, requiresServiceAccounts, serviceNetwork } = options;
  const kubelets = {
    credentials: () => state.pki.kubeletClient,
    headersFor: options.kubeletHeaders ?? (() => ({})),
    ownPort: () => (state.url === "" ? 0 : Number(new URL(state.url).port)),
  };
  return {
    storage: { ...storage, dataDir: join(dataDir, "storage") },
    ...(subresources !== undefined && { subresources: withKubelets(subresources, kubelets) }),
    ...(metrics !== undefined && { kinds: metricsKinds(metrics) }),
    ...(admission !== undefined && { admission }),
    ...(requiresServiceAccounts !== undefined && { requiresServiceAccounts }),
    ...(serviceNetwork !== undefined && { serviceNetwork }),
  };
}

/** Reads the policy and opens the log. Rejects with an `AuditError`. */
async function openAudit(
  { policyFile, log: file }: AuditOptions,
  context: { readonly clock: Clock; readonly metrics: AuditMetrics; readonly onError: (error: unknown) => void },
  closers: Closers,
): Promise<Auditor> {
  const { clock, metrics } = context;
  const policy = await readAuditPolicyFile(policyFile);
  const log = closers.use(await openAuditLog({ file, ...context }));
  return new Auditor({ policy, clock, metrics, write: log.write });
}

/** The health checks, under kube-apiserver's names: `etcd` reads from the storage. */
function healthChecks(state: ServingState, read: () => unknown): HealthChecks {
  const whenReady = (): string | undefined => (state.isReady ? undefined : "the server is starting");
  return {
    etcd: () => void read(),
    "poststarthook/bootstrap-controller": whenReady,
    "poststarthook/priority-and-fairness-config-producer": whenReady,
    "poststarthook/rbac/bootstrap-roles": whenReady,
  };
}
