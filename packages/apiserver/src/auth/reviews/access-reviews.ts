import { isJsonObject, type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { invalidCause, invalidError, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { AccessTarget } from "../rbac/policy-rule.ts";
import type { Authorizer } from "../rbac/rbac-authorizer.ts";
import { specOf, text, texts, withStatus } from "./review-fields.ts";
import type { Reviews } from "./review-kinds.ts";

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
    return withStatus(object, { allowed, ...(reason === "" ? {} : { reason }) });
  };
  return {
    selfSubjectAccessReview: async (object, { user }) => {
      requireValid([...accessCauses(object), ...metadataCauses(object)]);
      return review(object, user);
    },
    subjectAccessReview: async (object) => {
      requireValid([...accessCauses(object), ...subjectCauses(object), ...metadataCauses(object)]);
      return review(object, readSubject(object));
    },
    localSubjectAccessReview: async (object, { namespace }) => {
      const { namespace: sent = namespace, ...others } = object.metadata;
      if (sent !== namespace) {
        throw statusError(
          "BadRequest",
          "the namespace of the provided object does not match the namespace sent on the request",
        );
      }
      requireValid([
        ...accessCauses(object),
        ...subjectCauses(object),
        ...metadataCauses({ ...object, metadata: others }),
        ...localCauses(object, namespace),
      ]);
      return review({ ...object, metadata: { ...object.metadata, namespace } }, readSubject(object));
    },
    selfSubjectRulesReview: async (object, { user }) => {
      const namespace = text(specOf(object), "namespace");
      if (namespace === "") throw statusError("BadRequest", "no namespace on request");
      const all = authorizer.rulesFor(user, namespace);
      const rules = all.slice(0, maxReviewedRules);
      // As in kube-apiserver, the response repeats no spec.
      const answered: KubernetesObject & { spec: object } = { ...object, spec: {} };
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

/** A review needs either a resource or a path. */
function accessCauses(object: KubernetesObject): StatusCause[] {
  const resource = isJsonObject(specOf(object)["resourceAttributes"]);
  const path = isJsonObject(specOf(object)["nonResourceAttributes"]);
  if (resource && path) {
    const detail = "cannot be specified in combination with resourceAttributes";
    return [invalidCause("spec.nonResourceAttributes", specOf(object)["nonResourceAttributes"], detail)];
  }
  if (resource) return selectorAttributeCauses(specOf(object)["resourceAttributes"]);
  if (path) return [];
  const detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
  return [invalidCause("spec.resourceAttributes", null, detail)];
}

/** Validates the selectors that limit a list or watch. */
function selectorAttributeCauses(attributes: unknown): StatusCause[] {
  return ["fieldSelector", "labelSelector"].flatMap((name) => {
    const selector = isJsonObject(attributes) ? attributes[name] : undefined;
    if (!isJsonObject(selector)) return [];
    const field = `spec.resourceAttributes.${name}`;
    const raw = text(selector, "rawSelector");
    const requirements = Array.isArray(selector["requirements"]) ? selector["requirements"] : [];
    if (raw !== "" && requirements.length > 0) {
      return [invalidCause(`${field}.rawSelector`, raw, "may not specified at the same time as requirements")];
    }
    if (raw === "" && requirements.length === 0) {
      return [requiredCause(`${field}.requirements`, `when ${field} is specified, requirements or rawSelector is required`)];
    }
    return requirements.flatMap((requirement: unknown, index) =>
      isJsonObject(requirement) && text(requirement, "key") !== ""
        ? []
        : [requiredCause(`${field}.requirements[${index}].key`, "must be specified")],
    );
  });
}

function subjectCauses(object: KubernetesObject): StatusCause[] {
  const { username, groups } = readSubject(object);
  if (username !== "" || groups.length > 0) return [];
  return [invalidCause("spec.user", "", "at least one of user or group must be specified")];
}

/** Reviews are not stored, so their metadata must be empty. Go clients before 1.34 send `creationTimestamp: null`. */
function metadataCauses({ metadata }: KubernetesObject): StatusCause[] {
  const { managedFields: _, ...rest } = metadata;
  return Object.values(rest).every((value) => value === null || value === undefined)
    ? []
    : [invalidCause("metadata", metadata, "must be empty")];
}

function localCauses(object: KubernetesObject, namespace: string): StatusCause[] {
  const resource = specOf(object)["resourceAttributes"];
  const path = specOf(object)["nonResourceAttributes"];
  const causes: StatusCause[] = [];
  if (isJsonObject(resource) && text(resource, "namespace") !== namespace) {
    const field = "spec.resourceAttributes.namespace";
    causes.push(invalidCause(field, text(resource, "namespace"), "must match metadata.namespace"));
  }
  if (isJsonObject(path)) {
    causes.push(invalidCause("spec.nonResourceAttributes", path, "disallowed on this kind of request"));
  }
  return causes;
}

function requireValid(causes: readonly StatusCause[]): void {
  if (causes.length > 0) throw invalidError({ group: authorizationGroup, kind: "" }, "", causes);
}

function resourceRule({ verbs, apiGroups = [], resources = [], resourceNames = [] }: PolicyRule): unknown {
  return { verbs, apiGroups, resources, ...(resourceNames.length > 0 ? { resourceNames } : {}) };
}
