import type { KubernetesObject } from "@keelson/api-machinery";
import type { Evaluate, Reviews } from "../../auth/reviews/review-kinds.ts";

const refuse: Evaluate = () => Promise.reject(new TypeError("reviews are not available in this test"));

/** Reviews for tests that do not use them. */
export const noReviews: Reviews = {
  selfSubjectAccessReview: refuse,
  subjectAccessReview: refuse,
  selfSubjectRulesReview: refuse,
  localSubjectAccessReview: refuse,
  selfSubjectReview: refuse,
  tokenReview: refuse,
  tokenRequest: refuse,
};

/** A CRD of the kind Widget as a client sends it, in the group example.com, with a status subresource. */
export function widgetCrd(names: { plural?: string; shortNames?: string[] } = {}): KubernetesObject & { spec: unknown } {
  const { plural = "widgets", ...others } = names;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.example.com` },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural, kind: "Widget", ...others },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: "object",
              description: "A widget.",
              properties: {
                spec: {
                  type: "object",
                  description: "what is wanted",
                  required: ["n"],
                  properties: { n: { type: "integer", minimum: 1 } },
                },
              },
            },
          },
          subresources: { status: {} },
        },
      ],
    },
  };
}
