import type { Strategy } from "../../registry/served-resource.ts";

/** Evaluates a review: returns the object with its `status` instead of storing it. */
export type Evaluate = NonNullable<Strategy["evaluate"]>;

/** The `evaluate` of each review kind, for its {@link Strategy}. */
export interface Reviews {
  /** authorization.k8s.io/v1, cluster-scoped. */
  readonly selfSubjectAccessReview: Evaluate;
  readonly subjectAccessReview: Evaluate;
  readonly selfSubjectRulesReview: Evaluate;
  /** authorization.k8s.io/v1, namespaced. */
  readonly localSubjectAccessReview: Evaluate;
  /** authentication.k8s.io/v1, cluster-scoped. */
  readonly selfSubjectReview: Evaluate;
  readonly tokenReview: Evaluate;
  /** authentication.k8s.io/v1 TokenRequest: create of `serviceaccounts/token`. `name` is the service account. */
  readonly tokenRequest: Evaluate;
}
