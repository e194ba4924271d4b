import type { Clock } from "@keelson/api-machinery/time";
import type { Reviews } from "../auth/reviews/review-kinds.ts";
import type { Store } from "../storage/store.ts";
import { rbacKinds } from "./kinds/access/rbac.ts";
import { reviewKinds } from "./kinds/access/reviews.ts";
import { serviceAccountKinds } from "./kinds/access/service-accounts.ts";
import { configKinds } from "./kinds/core/config.ts";
import { eventKinds } from "./kinds/core/events.ts";
import { namespaceKinds } from "./kinds/core/namespaces.ts";
import { admissionPolicyKinds } from "./kinds/extension/admission-policies.ts";
import { mutatingPolicyKinds } from "./kinds/extension/mutating-policies.ts";
import { apiServiceKinds } from "./kinds/extension/api-services.ts";
import { storageMigrationKinds } from "./kinds/extension/storage-version-migrations.ts";
import { crdKinds } from "./kinds/extension/custom-resource-definitions.ts";
import { webhookConfigurationKinds } from "./kinds/extension/webhook-configurations.ts";
import { flowControlKinds } from "./kinds/limits/flow-control.ts";
import { limitRanges } from "./kinds/limits/limit-ranges.ts";
import { resourceQuotas } from "./kinds/limits/resource-quotas.ts";
import { endpointKinds } from "./kinds/network/endpoints.ts";
import { networkingKinds } from "./kinds/network/networking.ts";
import { createServiceAllocator, type ServiceAllocator } from "./kinds/network/service-allocator.ts";
import { serviceKinds } from "./kinds/network/services.ts";
import { coordinationKinds } from "./kinds/node/leases.ts";
import { nodeKinds } from "./kinds/node/nodes.ts";
import { priorityClasses } from "./kinds/node/priority-classes.ts";
import { runtimeClassKinds } from "./kinds/node/runtime-classes.ts";
import { podKinds } from "./kinds/pod/pods.ts";
import { storageKinds } from "./kinds/storage/persistent-volumes.ts";
import { autoscalingKinds } from "./kinds/autoscaling/horizontal-pod-autoscalers.ts";
import { certificateKinds } from "./kinds/access/certificates.ts";
import { csiKinds } from "./kinds/storage/csi.ts";
import { deviceKinds } from "./kinds/node/device-claims.ts";
import { serviceAddressKinds } from "./kinds/network/service-addresses.ts";
import { podDisruptionBudgets } from "./kinds/workload/disruption-budgets.ts";
import { workloadKinds } from "./kinds/workload/workload-kinds.ts";
import type { ServedResource } from "./served-resource.ts";

/** What built-in kinds need from the server. */
export interface BuiltinKindsOptions {
  readonly clock: Pick<Clock, "now">;
  readonly reviews: Reviews;
  /** Used to look up other kinds, such as PriorityClasses. Default: an empty store. */
  readonly store?: KindStore;
  /** Allocates addresses and ports of Services. Default: in 127.200.0.0/16, which is local to this machine. */
  readonly services?: ServiceAllocator;
  /** The first two octets of these addresses. Default `127.200`. */
  readonly serviceNetwork?: string;
}

/** The part of a store that kinds use. */
export type KindStore = Pick<Store, "get" | "list" | "watch">;

const emptyStore: KindStore = {
  get: () => undefined,
  list: () => ({ items: [], revision: 0 }),
  watch: () => ({ close: () => undefined }),
};

/** Groups in discovery order, as in kube-apiserver; other groups follow by name. */
export const groupOrder: readonly string[] = [
  "",
  "apiregistration.k8s.io",
  "apps",
  "events.k8s.io",
  "authentication.k8s.io",
  "authorization.k8s.io",
  "autoscaling",
  "batch",
  "certificates.k8s.io",
  "networking.k8s.io",
  "policy",
  "rbac.authorization.k8s.io",
  "storage.k8s.io",
  "admissionregistration.k8s.io",
  "apiextensions.k8s.io",
  "scheduling.k8s.io",
  "coordination.k8s.io",
  "node.k8s.io",
  "discovery.k8s.io",
  "resource.k8s.io",
  "flowcontrol.apiserver.k8s.io",
  "storagemigration.k8s.io",
];

/** All built-in kinds. To add a group, add a file below `kinds/` and a line here. */
export function builtinKinds(options: BuiltinKindsOptions): readonly ServedResource[] {
  const { clock, reviews, store = emptyStore } = options;
  return [
    ...configKinds(),
    ...eventKinds(),
    ...namespaceKinds(),
    ...serviceAccountKinds(reviews.tokenRequest),
    ...reviewKinds(reviews),
    ...rbacKinds(),
    ...coordinationKinds(),
    ...podKinds(store),
    ...nodeKinds(),
    ...runtimeClassKinds(),
    ...serviceKinds(
      options.services ??
        createServiceAllocator({
          store,
          clock,
          ...(options.serviceNetwork !== undefined && { network: options.serviceNetwork }),
        }),
    ),
    ...endpointKinds(),
    ...storageKinds(store, () => clock.now()),
    ...csiKinds(),
    ...deviceKinds(),
    ...workloadKinds(),
    limitRanges,
    resourceQuotas,
    podDisruptionBudgets,
    priorityClasses,
    ...admissionPolicyKinds(),
    ...mutatingPolicyKinds(),
    ...webhookConfigurationKinds(),
    ...networkingKinds(),
    ...serviceAddressKinds(),
    ...autoscalingKinds(),
    ...certificateKinds(() => clock.now()),
    ...flowControlKinds(),
    ...apiServiceKinds(),
    ...storageMigrationKinds(),
    ...crdKinds(() => clock.now()),
  ];
}
