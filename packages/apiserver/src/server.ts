import { mkdirSync } from "node:fs";
import type { Clock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { generateSigningKey, type KeyPair } from "@keelson/api-machinery/certificates";
import type { AdmissionStep } from "./admission/admission.ts";
import { PendingUsages } from "./admission/resource-quota/pending-usage.ts";
import { startQuotaRecount } from "./admission/resource-quota/quota-recount.ts";
import { createServerAdmission } from "./admission/server-admission.ts";
import { createSystemPriorityClasses } from "./admission/system-priority-classes.ts";
import { noWebhookMetrics, type WebhookMetrics } from "./admission/webhooks/webhook-metrics.ts";
import { createServiceAccountTokens, type ServiceAccountTokens } from "./auth/authentication/service-account-tokens.ts";
import { createNodeRights, type NodeRights } from "./auth/node/node-authorizer.ts";
import { ensureDefaultRoles } from "./auth/rbac/default-roles.ts";
import type { AccessTarget } from "./auth/rbac/policy-rule.ts";
import { type Authorizer, createRbacAuthorizer } from "./auth/rbac/rbac-authorizer.ts";
import { startRoleAggregation } from "./auth/rbac/role-aggregation.ts";
import { createReviews } from "./auth/reviews/reviews.ts";
import { applyRules, createNamespaces } from "./bootstrap.ts";
import { Closers } from "./closers.ts";
import type { Handle, Outcome, PipelineRequest } from "./endpoints/outcome.ts";
import { type Authorize, createPipeline, type PipelineOptions, type RequestPipeline } from "./endpoints/pipeline.ts";
import { podTarget, serviceTarget } from "./endpoints/proxy/proxy-target.ts";
import { proxyTo } from "./endpoints/proxy/reverse-proxy.ts";
import type { RandomSource } from "./endpoints/random-source.ts";
import type { RequestInfo } from "./endpoints/request-info.ts";
import { evictPod } from "./endpoints/subresources/eviction.ts";
import { emptyLog } from "./endpoints/subresources/pod-log.ts";
import { bindByName, bindPod } from "./endpoints/subresources/pod-subresources.ts";
import { ensureFlowControl } from "./flowcontrol/default-configuration.ts";
import { createInProcessTransport } from "./in-process-transport.ts";
import { createRegistry, type Registry } from "./registry/registry.ts";
import type { ResourceTable, ServedResource, UserInfo } from "./registry/served-resource.ts";
import { openStore, type OpenStoreOptions } from "./storage/open-store.ts";
import type { Store } from "./storage/store.ts";
import { systemUser } from "./system-user.ts";
import { createServiceResolver } from "./webhooks/service-resolver.ts";
import { WebhookClient } from "./webhooks/webhook-client.ts";

/** What {@link createApiServer} takes. */
export interface ApiServerOptions {
  /** The directory of the storage, or an open store, which the server then closes. */
  readonly storage:
    | ({ readonly dataDir: string } & Pick<OpenStoreOptions, "sync" | "historyMs" | "historyEvents">)
    | { readonly store: Store };
  readonly clock: Clock;
  readonly random: RandomSource;
  /** PEM of the key that signs service-account tokens. Default: a new key, so that no token outlives the server. */
  readonly signingKey?: string;
  /** Default: RBAC by the roles in the store. */
  readonly authorize?: Authorize;
  /** Additional admission steps, between the server's own mutating and validating steps. */
  readonly admission?: readonly AdmissionStep[];
  /**
   * Whether Pods need an existing service account, whose token they mount. Default false, for test environments, where no controller
   * creates the account `default` of a namespace.
   */
  readonly requiresServiceAccounts?: boolean;
  /** Receives the results of webhook calls. Default: ignored. */
  readonly webhookMetrics?: WebhookMetrics;
  /** Additional built-in kinds. */
  readonly kinds?: readonly ServedResource[];
  /** Creates the handler of non-resource paths: discovery, OpenAPI, health. Closed with the server. */
  readonly nonResource?: (resources: ResourceTable) => {
    readonly handle: (request: PipelineRequest) => Promise<Outcome | undefined>;
    close?(): void;
  };
  /** Serves requests to extension API servers. Default: APIServices have no effect. */
  readonly delegate?: PipelineOptions["delegate"];
  /** Subresources that are not views of their object, by `<group>/<plural>/<subresource>`: `/pods/log`. */
  readonly subresources?: PipelineOptions["subresources"];
  /** The client certificate with which webhooks are called. Default: none. */
  readonly webhookCertificate?: () => KeyPair;
  /** The first two octets of Service addresses, which must be local to this machine. Default `127.200`. */
  readonly serviceNetwork?: string;
  /** Called with background errors. Default: ignored. */
  readonly onError?: (error: unknown) => void;
}

/** A Kubernetes API server without a listener. HTTP servers and in-process clients call {@link ApiServer.handle}. */
export interface ApiServer extends AsyncDisposable {
  readonly handle: Handle;
  readonly store: Store;
  readonly resources: ResourceTable;
  readonly authorizer: Authorizer;
  readonly tokens: ServiceAccountTokens;
  /** Creates a transport for clients in this process. Default user: {@link systemUser}. */
  transport(options?: { readonly user?: UserInfo; readonly userAgent?: string; readonly watchBuffer?: number }): Transport;
  /** Number of open watches. */
  readonly openWatches: number;
  /** Ends all watches, waits for writes in progress, and closes the store. */
  close(): Promise<void>;
}

/**
 * Starts an API server on its storage: kinds, authorization, admission, system namespaces and default roles.
 *
 * **Errors**: rejects if the directory is in use or not writable.
 */
export async function createApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const closers = new Closers();
  try {
    return await openServer(options, closers);
  } catch (error) {
    await closers.abandon();
    throw error;
  }
}

async function openServer(options: ApiServerOptions, closers: Closers): Promise<ApiServer> {
  const { clock, random } = options;
  const store = closers.use(await storeOf(options));
  const access = await openAccess(options, store, closers);
  const client = closers.use(webhookClient(options, store));
  const registry = closers.use(openRegistry(options, store, access, client));
  const nonResource = options.nonResource?.(registry);
  closers.add(() => nonResource?.close?.());
  const pendingUsages = new PendingUsages();
  const admission = createServerAdmission(
    {
      store,
      resources: registry,
      nodes: access.nodes,
      client,
      clock,
      random,
      requiresServiceAccounts: options.requiresServiceAccounts ?? false,
      steps: options.admission ?? [],
      metrics: options.webhookMetrics ?? noWebhookMetrics,
      pendingUsages,
    },
    closers,
  );
  const { authorizer } = access.nodes;
  const pipeline = createPipeline({
    store,
    resources: registry,
    clock,
    random,
    admission,
    authorize: options.authorize ?? authorizeBy(authorizer),
    ...(nonResource !== undefined && { nonResource: nonResource.handle }),
    ...(options.delegate !== undefined && { delegate: options.delegate }),
    subresources: { ...subresources, ...options.subresources },
  });
  closers.add(() => pipeline.endWatches());
  await startControllers(options, { store, pipeline, pendingUsages }, closers);
  const close = (): Promise<void> => closers.close();
  return {
    handle: pipeline.handle,
    store,
    resources: registry,
    authorizer,
    tokens: access.tokens,
    transport: ({ user = systemUser, ...rest } = {}) => createInProcessTransport(pipeline.handle, { user, ...rest }),
    get openWatches() {
      return pipeline.openWatches;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function webhookClient({ clock, random, webhookCertificate }: ApiServerOptions, store: Store): WebhookClient {
  const resolve = createServiceResolver(store, random);
  return new WebhookClient({ resolve, clock, ...(webhookCertificate !== undefined && { certificate: webhookCertificate }) });
}

/** Who may do what. */
interface Access {
  readonly tokens: ServiceAccountTokens;
  readonly nodes: NodeRights;
}

async function openAccess({ clock, random, signingKey }: ApiServerOptions, store: Store, closers: Closers): Promise<Access> {
  const now = (): number => clock.now();
  const newId = (): string => random.uuid();
  const privateKey = signingKey ?? (await generateSigningKey());
  const tokens = createServiceAccountTokens({ privateKey, store, now, newId });
  await ensureDefaultRoles(store, { now, newId });
  await ensureFlowControl(store, { now, random });
  const rbac = closers.use(createRbacAuthorizer(store));
  return { tokens, nodes: closers.use(createNodeRights(store, rbac)) };
}

function openRegistry(options: ApiServerOptions, store: Store, { nodes, tokens }: Access, client: WebhookClient): Registry {
  const { clock, random, kinds, serviceNetwork, onError } = options;
  const reviews = createReviews({ authorizer: nodes.authorizer, tokens, store, now: () => clock.now() });
  return createRegistry({
    store,
    conversion: { client, newId: () => random.uuid() },
    clock,
    reviews: { ...reviews, tokenRequest: nodes.guardTokens(reviews.tokenRequest) },
    ...(kinds !== undefined && { kinds }),
    ...(serviceNetwork !== undefined && { serviceNetwork }),
    ...(onError !== undefined && { onError }),
  });
}

/** Creates the objects that every cluster has, and starts the controllers of the server itself. */
async function startControllers(
  { clock, onError = () => undefined }: ApiServerOptions,
  { store, pipeline, pendingUsages }: { store: Store; pipeline: RequestPipeline; pendingUsages: PendingUsages },
  closers: Closers,
): Promise<void> {
  const { handle } = pipeline;
  const recount = startQuotaRecount({ store, pending: pendingUsages, clock, onError });
  closers.add(() => recount.stop());
  await createNamespaces(handle);
  await createSystemPriorityClasses(handle, systemUser);
  closers.add(await startRoleAggregation({ store, apply: (name, rules) => applyRules(handle, name, rules), onError }));
}

const subresources: NonNullable<PipelineOptions["subresources"]> = {
  "/bindings": bindByName,
  "/pods/binding": bindPod,
  "/pods/eviction": evictPod,
  "/pods/log": emptyLog,
  "/pods/proxy": (call) => proxyTo(call, podTarget),
  "/services/proxy": (call) => proxyTo(call, serviceTarget),
};

async function storeOf({ storage, clock }: ApiServerOptions): Promise<Store> {
  if ("store" in storage) return storage.store;
  const { dataDir: dir, ...settings } = storage;
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return openStore({ ...settings, dir, clock });
}

/** Adapts the authorizer to the pipeline. */
function authorizeBy(authorizer: Authorizer): Authorize {
  return (user, info) => authorizer.authorize(user, info.verb, targetOf(info));
}

function targetOf(info: RequestInfo): AccessTarget {
  if (!info.isResource) return { path: info.path };
  const { group, resource, subresource, namespace, name, fieldSelector } = info;
  return { group, resource, subresource, namespace, name, fieldSelector };
}
