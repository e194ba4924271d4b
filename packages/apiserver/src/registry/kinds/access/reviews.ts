import type { Scope } from "@keelson/api-machinery";
import type { Evaluate, Reviews } from "../../../auth/reviews/review-kinds.ts";
import { builtinResource } from "../../builtin/builtin-resource.ts";
import type { ServedResource } from "../../served-resource.ts";

/** authentication.k8s.io and authorization.k8s.io reviews: create-only, answered in the response. */
export function reviewKinds(reviews: Reviews): readonly ServedResource[] {
  const review = (group: string, kind: string, evaluate: Evaluate, scope: Scope = "Cluster"): ServedResource =>
    builtinResource({
      group,
      version: "v1",
      kind,
      plural: `${kind.toLowerCase()}s`,
      scope,
      verbs: ["create"],
      strategy: { hasGeneration: false, evaluate },
    });
  return [
    review("authentication.k8s.io", "SelfSubjectReview", reviews.selfSubjectReview),
    review("authentication.k8s.io", "TokenReview", reviews.tokenReview),
    review("authorization.k8s.io", "LocalSubjectAccessReview", reviews.localSubjectAccessReview, "Namespaced"),
    review("authorization.k8s.io", "SelfSubjectAccessReview", reviews.selfSubjectAccessReview),
    review("authorization.k8s.io", "SelfSubjectRulesReview", reviews.selfSubjectRulesReview),
    review("authorization.k8s.io", "SubjectAccessReview", reviews.subjectAccessReview),
  ];
}
