import type { Clock } from "@keelson/api-machinery/time";
import type { Reviews } from "../auth/reviews/reviews.ts";
import { autoscalingKinds } from "./kinds/autoscaling.ts";
import { networkingKinds } from "./kinds/networking.ts";
import { policyKinds } from "./kinds/policy.ts";
import { configKinds } from "./kinds/config.ts";
import { crdKinds } from "./kinds/custom-resource-definitions.ts";
import { eventKinds } from "./kinds/events.ts";
import { coordinationKinds } from "./kinds/leases.ts";
import { namespaceKinds } from "./kinds/namespaces.ts";
import { rbacKinds } from "./kinds/rbac.ts";
import { reviewKinds } from "./kinds/reviews.ts";
import { runtimeClassKinds } from "./kinds/runtime-classes.ts";
import { serviceAccountKinds } from "./kinds/service-accounts.ts";
import { endpointKinds } from "./kinds/endpoints.ts";
import { nodeKinds } from "./kinds/nodes.ts";
import { createServiceAllocator, type ServiceAllocator } from "./kinds/service/service-allocator.ts";
import { serviceKinds } from "./kinds/service/services.ts";
import { workloadKinds } from "./kinds/workload/workload-kinds.ts";
import { storageKinds } from "./kinds/storage.ts";
import { podKinds } from "./kinds/pod/pods.ts";
import type { Store } from "../storage/store.ts";
import type { ServedResource } from "./served-resource.ts";

/** What built-in kinds need of the server. */
export interface BuiltinKindsOptions {
  readonly clock: Pick<Clock, "now">;
  readonly reviews: Reviews;
  /** Where kinds look up others: PriorityClasses of Pods, addresses of Services. Default: nothing is stored. */
  readonly store?: KindStore;
  /** Hands out addresses and ports of Services. Default: addresses of 127.200.0.0/16, all of them this machine's. */
  readonly services?: ServiceAllocator;
  /** The first two parts of these addresses. Default `127.200`. */
  readonly serviceNetwork?: string;
}

/** As much of a store as kinds read. */
export type KindStore = Pick<Store, "get" | "list" | "watch">;

const emptyStore: KindStore = {
  get: () => undefined,
  list: () => ({ items: [], revision: 0, remaining: 0 }),
  watch: () => ({ close: () => undefined }),
};

/** Groups in the order in which discovery lists them, as kube-apiserver does: what is not here comes after it, by name. */
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
];

/** Every built-in kind. A further group of kinds is a further file in `kinds/` and one line here. */
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
    ...storageKinds(store),
    ...workloadKinds(),
    ...policyKinds(),
    ...networkingKinds(),
    ...autoscalingKinds(),
    ...crdKinds(() => clock.now()),
  ];
}
