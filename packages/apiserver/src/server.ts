import { mkdirSync } from "node:fs";
import { type JsonObject, StatusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { type AdmissionStep, createAdmissionChain } from "./admission/admission.ts";
import { serviceAccounts } from "./admission/service-accounts.ts";
import { namespaceLifecycle } from "./admission/namespace-lifecycle.ts";
import { generateSigningKey } from "./auth/certificates/certificates.ts";
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
import { emptyLog } from "./endpoints/subresources/pod-log.ts";
import { bindByName, bindPod } from "./endpoints/subresources/pod-subresources.ts";
import type { RandomSource } from "./endpoints/random-source.ts";
import type { RequestInfo } from "./endpoints/request-info.ts";
import { createInProcessTransport } from "./in-process-transport.ts";
import { createRegistry } from "./registry/registry.ts";
import type { ResourceTable, ServedResource, UserInfo } from "./registry/served-resource.ts";
import { openStore, type OpenStoreOptions } from "./storage/open-store.ts";
import type { Store } from "./storage/store.ts";

/** What {@link createApiServer} takes. */
export interface ApiServerOptions {
  /** Where objects are kept, or the store that keeps them, which the server then closes. */
  readonly storage:
    | ({ readonly dataDir: string } & Pick<OpenStoreOptions, "sync" | "historyMs" | "historyEvents">)
    | { readonly store: Store };
  readonly clock: Clock;
  readonly random: RandomSource;
  /** PEM of the key that signs service accounts' tokens. Default: a new one, so that no token outlives the server. */
  readonly signingKey?: string;
  /** Default: RBAC by the roles in the store. */
  readonly authorize?: Authorize;
  /** Further admission, between the server's own mutating and validating steps. */
  readonly admission?: readonly AdmissionStep[];
  /**
   * Whether Pods need a service account that is there. Default false, as in test environments, where nobody makes the account `default` of
   * a namespace.
   */
  readonly requiresServiceAccounts?: boolean;
  /** Further built-in kinds. */
  readonly kinds?: readonly ServedResource[];
  /** Makes what answers paths that are no resources: discovery, OpenAPI, health. Closed with the server. */
  readonly nonResource?: (resources: ResourceTable) => {
    readonly handle: (request: PipelineRequest) => Promise<Outcome | undefined>;
    close?(): void;
  };
  /** Subresources that are no view of their object, by `<group>/<plural>/<subresource>`: `/pods/log`. */
  readonly subresources?: PipelineOptions["subresources"];
  /** The first two parts of Services' addresses, which have to be this machine's. Default `127.200`. */
  readonly serviceNetwork?: string;
  /** What went wrong where nobody waits for an answer. Default: ignored. */
  readonly onError?: (error: unknown) => void;
}

/** A Kubernetes API server without a listener: HTTP and clients in process stand in front of {@link ApiServer.handle}. */
export interface ApiServer extends AsyncDisposable {
  readonly handle: Handle;
  readonly store: Store;
  readonly resources: ResourceTable;
  readonly authorizer: Authorizer;
  readonly tokens: ServiceAccountTokens;
  /** A way in for clients in this process. Default user: the system itself, which may do everything. */
  transport(options?: { readonly user?: UserInfo; readonly userAgent?: string; readonly watchBuffer?: number }): Transport;
  /** How many watches are open. */
  readonly openWatches: number;
  /** Ends all watches, lets writes finish, and closes the store. */
  close(): Promise<void>;
}

/** The system itself: what the server does of its own accord, and components that run with it. */
export const systemUser: UserInfo = { username: "system:apiserver", groups: [mastersGroup, "system:authenticated"] };

/** Namespaces that are there from the start. */
const systemNamespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];

/**
 * Starts an API server on its storage: kinds, authorization, admission and the system's namespaces and roles.
 *
 * **Errors**: rejects when the folder is in use or can't be written.
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
    const rbac = createRbacAuthorizer(store);
    closers.push(() => rbac.close());
    const nodes = createNodeRights(store, rbac);
    closers.push(() => nodes.close());
    const { authorizer } = nodes;
    const reviews = createReviews({ authorizer, tokens, store, now });
    const registry = createRegistry({
      store,
      clock,
      reviews: { ...reviews, tokenRequest: nodes.guardTokens(reviews.tokenRequest) },
      ...(options.kinds === undefined ? {} : { kinds: options.kinds }),
      ...(options.serviceNetwork === undefined ? {} : { serviceNetwork: options.serviceNetwork }),
      ...(onError === undefined ? {} : { onError }),
    });
    closers.push(() => registry.close());
    const nonResource = options.nonResource?.(registry);
    closers.push(() => nonResource?.close?.());
    const pipeline = createPipeline({
      store,
      resources: registry,
      clock,
      random,
      admission: createAdmissionChain([
        ...(options.admission ?? []),
        ...(options.requiresServiceAccounts === true ? [serviceAccounts(store, clock)] : []),
        namespaceLifecycle(store),
        nodes.admission,
        createEscalationGuard(authorizer),
      ]),
      authorize: options.authorize ?? authorizeBy(authorizer),
      ...(nonResource === undefined ? {} : { nonResource: nonResource.handle }),
      subresources: {
        "/bindings": bindByName,
        "/pods/binding": bindPod,
        "/pods/eviction": evictPod,
        "/pods/log": emptyLog,
        ...options.subresources,
      },
    });
    closers.push(() => pipeline.endWatches());
    await makeNamespaces(pipeline.handle);
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

/** RBAC as the pipeline asks for it. */
function authorizeBy(authorizer: Authorizer): Authorize {
  return async (user, info) => authorizer.authorize(user, info.verb, targetOf(info));
}

function targetOf(info: RequestInfo): AccessTarget {
  if (!info.isResource) return { path: info.path };
  const { group, resource, subresource, namespace, name } = info;
  return { group, resource, subresource, namespace, name };
}

/** Writes what a ClusterRole gathers, as the controller of that in Kubernetes does. */
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

async function makeNamespaces(handle: Handle): Promise<void> {
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
