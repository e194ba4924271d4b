import { isJsonObject, type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { invalidError, type StatusCause } from "@keelson/api-machinery/validation";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { AccessTarget } from "../rbac/policy-rule.ts";
import type { Authorizer } from "../rbac/rbac-authorizer.ts";
import { accessCauses, localCauses, metadataCauses, selectorCauses, subjectCauses } from "./access-review-causes.ts";
import { specOf, text, texts, withStatus } from "./review-fields.ts";
import type { Reviews } from "./review-kinds.ts";
import { selectorErrors } from "./selector-errors.ts";

const authorizationGroup = "authorization.k8s.io";

/** Maximum number of rules in a response. The user may have created many more, and they are encoded in one turn of the event loop. */
const maxReviewedRules = 2_000;

/** The reviews of the group authorization.k8s.io. */
export type AccessReviews = Pick<
  Reviews,
  "selfSubjectAccessReview" | "subjectAccessReview" | "selfSubjectRulesReview" | "localSubjectAccessReview"
>;

/** Creates the {@link AccessReviews} of an authorizer. */
export function createAccessReviews(authorizer: Pick<Authorizer, "authorize" | "rulesFor">): AccessReviews {
  const review = (object: KubernetesObject, user: UserInfo): KubernetesObject => {
    const { verb, target } = readAccess(object);
    const { allowed, reason } = authorizer.authorize(user, verb, target);
    const evaluationError = selectorErrors(object);
    return withStatus(object, {
      allowed,
      ...(reason === "" ? {} : { reason }),
      ...(evaluationError === "" ? {} : { evaluationError }),
    });
  };
  return {
    selfSubjectAccessReview: async (object, { user }) => {
      requireValid([...accessCauses(object), ...selectorCauses(object), ...metadataCauses(object)]);
      return review(object, user);
    },
    subjectAccessReview: async (object) => {
      requireValid([...accessCauses(object), ...subjectCauses(object), ...selectorCauses(object), ...metadataCauses(object)]);
      return review(object, readSubject(object));
    },
    localSubjectAccessReview: async (object, { namespace }) => {
      if ((object.metadata.namespace ?? namespace) !== namespace) {
        throw statusError(
          "BadRequest",
          "the namespace of the provided object does not match the namespace sent on the request",
        );
      }
      requireValid([
        ...accessCauses(object),
        ...subjectCauses(object),
        ...selectorCauses(object),
        ...localCauses(object, namespace),
      ]);
      return review({ ...object, metadata: { ...object.metadata, namespace } }, readSubject(object));
    },
    selfSubjectRulesReview: async (object, { user }) => {
      const namespace = text(specOf(object), "namespace");
      if (namespace === "") throw statusError("BadRequest", "no namespace on request");
      const all = authorizer.rulesFor(user, namespace);
      const rules = all.slice(0, maxReviewedRules);
      // As in kube-apiserver, the response repeats neither metadata nor spec.
      const answered: KubernetesObject & { spec: object } = { ...object, metadata: {}, spec: {} };
      return withStatus(answered, {
        resourceRules: rules.filter((rule) => rule.resources?.length).map(resourceRule),
        nonResourceRules: rules
          .filter((rule) => rule.nonResourceURLs?.length)
          .map(({ verbs, nonResourceURLs = [] }) => ({ verbs, nonResourceURLs })),
        incomplete: all.length > rules.length,
        ...(all.length > rules.length
          ? { evaluationError: `only the first ${rules.length} of ${all.length} rules are listed` }
          : {}),
      });
    },
  };
}

function readAccess(object: KubernetesObject): { readonly verb: string; readonly target: AccessTarget } {
  const spec = specOf(object);
  const resource = spec["resourceAttributes"];
  const path = spec["nonResourceAttributes"];
  if (isJsonObject(path)) return { verb: text(path, "verb"), target: { path: text(path, "path") } };
  const attributes = isJsonObject(resource) ? resource : {};
  return {
    verb: text(attributes, "verb"),
    target: {
      group: text(attributes, "group"),
      resource: text(attributes, "resource"),
      subresource: text(attributes, "subresource"),
      namespace: text(attributes, "namespace"),
      name: text(attributes, "name"),
    },
  };
}

function readSubject(object: KubernetesObject): UserInfo {
  const spec = specOf(object);
  return { username: text(spec, "user"), groups: texts(spec, "groups") };
}

function requireValid(causes: readonly StatusCause[]): void {
  if (causes.length > 0) throw invalidError({ group: authorizationGroup, kind: "" }, "", causes);
}

function resourceRule({ verbs, apiGroups = [], resources = [], resourceNames = [] }: PolicyRule): unknown {
  return { verbs, apiGroups, resources, ...(resourceNames.length > 0 ? { resourceNames } : {}) };
}
