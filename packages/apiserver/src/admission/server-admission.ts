import type { Clock } from "@keelson/api-machinery/time";
import type { NodeRights } from "../auth/node/node-authorizer.ts";
import { createEscalationGuard } from "../auth/rbac/escalation-guard.ts";
import type { Closers } from "../closers.ts";
import type { RandomSource } from "../endpoints/random-source.ts";
import type { ResourceTable } from "../registry/served-resource.ts";
import type { Store } from "../storage/store.ts";
import type { WebhookClient } from "../webhooks/webhook-client.ts";
import { type AdmissionChain, type AdmissionStep, createAdmissionChain } from "./admission.ts";
import { certificateApproval } from "./certificate-approval.ts";
import { limitRanger, limitRangeKind } from "./limit-ranger.ts";
import { NamespacedObjects } from "./namespaced-objects.ts";
import { namespaceLifecycle } from "./namespace-lifecycle.ts";
import { podSecurity } from "./pod-security/pod-security.ts";
import { MutatingPolicies } from "./policies/mutating-policies.ts";
import { ValidatingPolicies } from "./policies/validating-policies.ts";
import type { PendingUsages } from "./resource-quota/pending-usage.ts";
import { quotaKind, resourceQuota } from "./resource-quota/resource-quota.ts";
import { runtimeClasses } from "./runtime-classes.ts";
import { serviceAccounts } from "./service-accounts.ts";
import { createAdmissionWebhooks } from "./webhooks/admission-webhooks.ts";
import type { WebhookMetrics } from "./webhooks/webhook-metrics.ts";

/** What {@link createServerAdmission} takes. */
export interface ServerAdmissionOptions {
  readonly store: Store;
  readonly resources: ResourceTable;
  readonly nodes: NodeRights;
  readonly client: WebhookClient;
  readonly clock: Clock;
  readonly random: RandomSource;
  /** Whether Pods need an existing service account and runtime class. */
  readonly requiresServiceAccounts: boolean;
  /** Additional steps, between the server's own mutating and validating steps. */
  readonly steps: readonly AdmissionStep[];
  readonly metrics: WebhookMetrics;
  /** Usage of ResourceQuotas that is reserved for writes in progress. */
  readonly pendingUsages: PendingUsages;
}

/** Creates the admission chain of an API server, and adds to `closers` what must be closed. */
export function createServerAdmission(options: ServerAdmissionOptions, closers: Closers): AdmissionChain {
  const { store, resources, nodes, client, clock, random, metrics } = options;
  const { authorizer } = nodes;
  const newId = (): string => random.uuid();
  const webhooks = closers.use(createAdmissionWebhooks({ store, resources, authorizer, client, clock, newId, metrics }));
  const mutatingPolicies = closers.use(new MutatingPolicies({ store, resources, authorizer }));
  const validatingPolicies = closers.use(new ValidatingPolicies({ store, resources, authorizer }));
  const limitRanges = closers.use(new NamespacedObjects(store, limitRangeKind));
  const quotas = closers.use(new NamespacedObjects(store, quotaKind));
  return createAdmissionChain([
    namespaceLifecycle(store),
    ...(options.requiresServiceAccounts ? [serviceAccounts(store, clock, random)] : []),
    limitRanger(limitRanges),
    ...(options.requiresServiceAccounts ? [runtimeClasses(store)] : []),
    mutatingPolicies,
    webhooks.mutating,
    // After webhooks, which must not undo what these require.
    ...options.steps,
    nodes.admission,
    createEscalationGuard(authorizer),
    certificateApproval(authorizer),
    podSecurity(store),
    validatingPolicies,
    webhooks.validating,
    // Last, so that a request that another step rejects uses no quota.
    resourceQuota({ store, quotas, pending: options.pendingUsages }),
  ]);
}
