import { mkdirSync } from "node:fs";
import { type JsonObject, StatusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { type AdmissionStep, createAdmissionChain } from "./admission/admission.ts";
import { certificateApproval } from "./admission/certificate-approval.ts";
import { runtimeClasses } from "./admission/runtime-classes.ts";
import { serviceAccounts } from "./admission/service-accounts.ts";
import { limitRanger, limitRangeKind } from "./admission/limit-ranger.ts";
import { NamespacedObjects } from "./admission/namespaced-objects.ts";
import { namespaceLifecycle } from "./admission/namespace-lifecycle.ts";
import { MutatingPolicies } from "./admission/policies/mutating-policies.ts";
import { ValidatingPolicies } from "./admission/policies/validating-policies.ts";
import { createAdmissionWebhooks } from "./admission/webhooks/admission-webhooks.ts";
import { noWebhookMetrics, type WebhookMetrics } from "./admission/webhooks/webhook-metrics.ts";
import { podSecurity } from "./admission/pod-security/pod-security.ts";
import { createSystemPriorityClasses } from "./admission/system-priority-classes.ts";
import { startQuotaRecount } from "./admission/resource-quota/quota-recount.ts";
import { quotaKind, resourceQuota } from "./admission/resource-quota/resource-quota.ts";
import { generateSigningKey } from "@keelson/api-machinery/certificates";
import { ensureDefaultRoles } from "./auth/rbac/default-roles.ts";
import { createEscalationGuard } from "./auth/rbac/escalation-guard.ts";
import { mastersGroup } from "./auth/certificates/pki.ts";
import type { AccessTarget } from "./auth/rbac/policy-rule.ts";
import { createNodeRights } from "./auth/node/node-authorizer.ts";
import { type Authorizer, createRbacAuthorizer } from "./auth/rbac/rbac-authorizer.ts";
import { createReviews } from "./auth/reviews/reviews.ts";
import { startRoleAggregation } from "./auth/rbac/role-aggregation.ts";
import { createServiceAccountTokens, type ServiceAccountTokens } from "./auth/authentication/service-account-tokens.ts";
import type { Handle, Outcome, PipelineRequest } from "./endpoints/outcome.ts";
import { type Authorize, createPipeline, type PipelineOptions } from "./endpoints/pipeline.ts";
import { evictPod } from "./endpoints/subresources/eviction.ts";
import { ensureFlowControl } from "./flowcontrol/default-configuration.ts";
import { emptyLog } from "./endpoints/subresources/pod-log.ts";
import { podTarget, serviceTarget } from "./endpoints/proxy/proxy-target.ts";
import { proxyTo } from "./endpoints/proxy/reverse-proxy.ts";
import { bindByName, bindPod } from "./endpoints/subresources/pod-subresources.ts";
import type { RandomSource } from "./endpoints/random-source.ts";
import type { RequestInfo } from "./endpoints/request-info.ts";
import { createInProcessTransport } from "./in-process-transport.ts";
import { createRegistry } from "./registry/registry.ts";
import type { ResourceTable, ServedResource, UserInfo } from "./registry/served-resource.ts";
import { openStore, type OpenStoreOptions } from "./storage/open-store.ts";
import type { Store } from "./storage/store.ts";
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

/** The user of the server itself and of components that run with it. May do everything. */
export const systemUser: UserInfo = { username: "system:apiserver", groups: [mastersGroup, "system:authenticated"] };

/** Namespaces created at startup. */
const systemNamespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];

/**
 * Starts an API server on its storage: kinds, authorization, admission, system namespaces and default roles.
 *
 * **Errors**: rejects if the directory is in use or not writable.
 */
export async function createApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { clock, random, onError } = options;
  const now = (): number => clock.now();
  const newId = (): string => random.uuid();
  const store = await storeOf(options);
  const closers: (() => void | Promise<void>)[] = [() => store.close()];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const privateKey = options.signingKey ?? (await generateSigningKey());
    const tokens = createServiceAccountTokens({ privateKey, store, now, newId });
    await ensureDefaultRoles(store, { now, newId });
    await ensureFlowControl(store, { now, random });
    const rbac = createRbacAuthorizer(store);
    closers.push(() => rbac.close());
    const nodes = createNodeRights(store, rbac);
    closers.push(() => nodes.close());
    const { authorizer } = nodes;
    const reviews = createReviews({ authorizer, tokens, store, now });
    const client = new WebhookClient({ resolve: createServiceResolver(store, random), clock });
    closers.push(() => client.close());
    const registry = createRegistry({
      store,
      conversion: { client, newId },
      clock,
      reviews: { ...reviews, tokenRequest: nodes.guardTokens(reviews.tokenRequest) },
      ...(options.kinds === undefined ? {} : { kinds: options.kinds }),
      ...(options.serviceNetwork === undefined ? {} : { serviceNetwork: options.serviceNetwork }),
      ...(onError === undefined ? {} : { onError }),
    });
    closers.push(() => registry.close());
    const nonResource = options.nonResource?.(registry);
    closers.push(() => nonResource?.close?.());
    const webhooks = createAdmissionWebhooks({
      store,
      resources: registry,
      authorizer,
      client,
      clock,
      newId,
      metrics: options.webhookMetrics ?? noWebhookMetrics,
    });
    closers.push(() => webhooks.close());
    const mutatingPolicies = new MutatingPolicies({ store, resources: registry, authorizer });
    closers.push(() => mutatingPolicies.close());
    const validatingPolicies = new ValidatingPolicies({ store, resources: registry, authorizer });
    closers.push(() => validatingPolicies.close());
    const limitRanges = new NamespacedObjects(store, limitRangeKind);
    closers.push(() => limitRanges.close());
    const quotas = new NamespacedObjects(store, quotaKind);
    closers.push(() => quotas.close());
    const pipeline = createPipeline({
      store,
      resources: registry,
      clock,
      random,
      admission: createAdmissionChain([
        namespaceLifecycle(store),
        ...(options.requiresServiceAccounts === true ? [serviceAccounts(store, clock, random)] : []),
        limitRanger(limitRanges),
        ...(options.requiresServiceAccounts === true ? [runtimeClasses(store)] : []),
        mutatingPolicies,
        webhooks.mutating,
        // After webhooks, which must not undo what these require.
        ...(options.admission ?? []),
        nodes.admission,
        createEscalationGuard(authorizer),
        certificateApproval(authorizer),
        podSecurity(store),
        validatingPolicies,
        webhooks.validating,
        // Last, so that a request that another step rejects uses no quota.
        resourceQuota({ store, quotas }),
      ]),
      authorize: options.authorize ?? authorizeBy(authorizer),
      ...(nonResource === undefined ? {} : { nonResource: nonResource.handle }),
      ...(options.delegate === undefined ? {} : { delegate: options.delegate }),
      subresources: {
        "/bindings": bindByName,
        "/pods/binding": bindPod,
        "/pods/eviction": evictPod,
        "/pods/log": emptyLog,
        "/pods/proxy": (call) => proxyTo(call, podTarget),
        "/services/proxy": (call) => proxyTo(call, serviceTarget),
        ...options.subresources,
      },
    });
    closers.push(() => pipeline.endWatches());
    const recount = startQuotaRecount({ store, clock, onError: onError ?? (() => undefined) });
    closers.push(() => recount.stop());
    await createNamespaces(pipeline.handle);
    await createSystemPriorityClasses(pipeline.handle, systemUser);
    closers.push(
      await startRoleAggregation({
        store,
        apply: (name, rules) => applyRules(pipeline.handle, name, rules),
        onError: onError ?? (() => undefined),
      }),
    );
    return {
      handle: pipeline.handle,
      store,
      resources: registry,
      authorizer,
      tokens,
      transport: ({ user = systemUser, ...rest } = {}) => createInProcessTransport(pipeline.handle, { user, ...rest }),
      get openWatches() {
        return pipeline.openWatches;
      },
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

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

/** Writes the aggregated rules of a ClusterRole, like Kubernetes' clusterrole-aggregation-controller. */
async function applyRules(handle: Handle, name: string, rules: readonly unknown[]): Promise<void> {
  const outcome = await handle({
    method: "PATCH",
    path: `/apis/rbac.authorization.k8s.io/v1/clusterroles/${encodeURIComponent(name)}`,
    query: { fieldManager: "clusterrole-aggregation-controller", force: "true" },
    headers: { "content-type": "application/apply-patch+yaml" },
    body: { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: { name }, rules },
    user: systemUser,
  });
  if (outcome.kind === "status") throw new StatusError(outcome.status);
}

async function createNamespaces(handle: Handle): Promise<void> {
  const outcomes = await Promise.all(
    systemNamespaces.map((name) => {
      const body: JsonObject = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
      return handle({ method: "POST", path: "/api/v1/namespaces", body, user: systemUser, userAgent: "keelson" });
    }),
  );
  for (const outcome of outcomes) {
    if (outcome.kind === "status" && outcome.status.reason !== "AlreadyExists") throw new StatusError(outcome.status);
  }
}
