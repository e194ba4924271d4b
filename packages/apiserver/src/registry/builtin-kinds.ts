import type { Clock } from "@keelson/api-machinery/time";
import type { Reviews } from "../auth/reviews/review-kinds.ts";
import { admissionPolicyKinds } from "./kinds/admission-policies.ts";
import { autoscalingKinds } from "./kinds/autoscaling.ts";
import { networkingKinds } from "./kinds/networking.ts";
import { policyKinds } from "./kinds/policy.ts";
import { configKinds } from "./kinds/config.ts";
import { crdKinds } from "./kinds/custom-resource-definitions.ts";
import { eventKinds } from "./kinds/events.ts";
import { coordinationKinds } from "./kinds/leases.ts";
import { flowControlKinds } from "./kinds/flow-control.ts";
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
  list: () => ({ items: [], revision: 0, remaining: 0 }),
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
  "flowcontrol.apiserver.k8s.io",
];

/** All built-in kinds. To add a group, add a file to `kinds/` and a line here. */
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
    ...admissionPolicyKinds(),
    ...networkingKinds(),
    ...autoscalingKinds(),
    ...flowControlKinds(),
    ...crdKinds(() => clock.now()),
  ];
}
