import type { Clock } from "@keelson/api-machinery";
import type { Reviews } from "../auth/reviews.ts";
import { configKinds } from "./kinds/config.ts";
import { crdKinds } from "./kinds/custom-resource-definitions.ts";
import { eventKinds } from "./kinds/events.ts";
import { coordinationKinds } from "./kinds/leases.ts";
import { namespaceKinds } from "./kinds/namespaces.ts";
import { rbacKinds } from "./kinds/rbac.ts";
import { reviewKinds } from "./kinds/reviews.ts";
import { serviceAccountKinds } from "./kinds/service-accounts.ts";
import type { ServedResource } from "./served-resource.ts";

/** What built-in kinds need of the server. */
export interface BuiltinKindsOptions {
  readonly clock: Pick<Clock, "now">;
  readonly reviews: Reviews;
}

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
  const { clock, reviews } = options;
  return [
    ...configKinds(),
    ...eventKinds(),
    ...namespaceKinds(),
    ...serviceAccountKinds(reviews.tokenRequest),
    ...reviewKinds(reviews),
    ...rbacKinds(),
    ...coordinationKinds(),
    ...crdKinds(() => clock.now()),
  ];
}
