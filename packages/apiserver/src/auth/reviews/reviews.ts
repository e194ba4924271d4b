import { isJsonObject, type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { invalidCause, invalidError, type StatusCause } from "@keelson/api-machinery/validation";
import type { Strategy, UserInfo } from "../../registry/served-resource.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import { type TokenAuthenticator, withAuthenticated } from "../authentication/authenticator.ts";
import type { AccessTarget } from "../rbac/policy-rule.ts";
import type { Authorizer } from "../rbac/rbac-authorizer.ts";
import type { BoundObject, ServiceAccountTokens } from "../authentication/service-account-tokens.ts";

/** What a review's kind runs instead of being stored: fills in `status` of the object that was sent. */
export type Evaluate = NonNullable<Strategy["evaluate"]>;

/** The `evaluate` of each review kind, to be put into its {@link Strategy}. */
export interface Reviews {
  /** authorization.k8s.io/v1, cluster scoped. */
  readonly selfSubjectAccessReview: Evaluate;
  readonly subjectAccessReview: Evaluate;
  readonly selfSubjectRulesReview: Evaluate;
  /** authorization.k8s.io/v1, namespaced. */
  readonly localSubjectAccessReview: Evaluate;
  /** authentication.k8s.io/v1, cluster scoped. */
  readonly selfSubjectReview: Evaluate;
  readonly tokenReview: Evaluate;
  /** authentication.k8s.io/v1 TokenRequest: create of `serviceaccounts/token`; `name` is the service account. */
  readonly tokenRequest: Evaluate;
}

/** What {@link createReviews} takes. */
export interface ReviewsOptions {
  readonly authorizer: Pick<Authorizer, "authorize" | "rulesFor">;
  readonly tokens: ServiceAccountTokens;
  /** Further tokens that a TokenReview knows. */
  readonly staticTokens?: readonly TokenAuthenticator[];
  readonly store: Pick<Store, "get">;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

const authorizationGroup = "authorization.k8s.io";
const authenticationGroup = "authentication.k8s.io";
const hourSeconds = 3_600;
const minTokenSeconds = 600;
const maxTokenSeconds = 2 ** 32;

/** Makes the {@link Reviews} of one server. */
export function createReviews(options: ReviewsOptions): Reviews {
  const { authorizer, tokens, staticTokens = [], store } = options;

  const access = (object: KubernetesObject, user: UserInfo, target: AccessTarget, verb: string): KubernetesObject => {
    const { allowed, reason } = authorizer.authorize(user, verb, target);
    return withStatus(object, { allowed, ...(reason === "" ? {} : { reason }) });
  };

  return {
    selfSubjectAccessReview: async (object, { user }) => {
      requireValid(object, [...accessCauses(object), ...metadataCauses(object)]);
      const { verb, target } = readAccess(object);
      return access(object, user, target, verb);
    },
    subjectAccessReview: async (object) => {
      requireValid(object, [...accessCauses(object), ...subjectCauses(object), ...metadataCauses(object)]);
      const { verb, target } = readAccess(object);
      return access(object, readSubject(object), target, verb);
    },
    localSubjectAccessReview: async (object, { namespace }) => {
      const { namespace: given = namespace, ...others } = object.metadata;
      if (given !== namespace) {
        throw statusError(
          "BadRequest",
          "the namespace of the provided object does not match the namespace sent on the request",
        );
      }
      const local = { ...object, metadata: others };
      requireValid(object, [
        ...accessCauses(object),
        ...subjectCauses(object),
        ...metadataCauses(local),
        ...localCauses(object, namespace),
      ]);
      const { verb, target } = readAccess(object);
      return access({ ...object, metadata: { ...object.metadata, namespace } }, readSubject(object), target, verb);
    },
    selfSubjectRulesReview: async (object, { user }) => {
      const namespace = text(specOf(object), "namespace");
      if (namespace === "") throw statusError("BadRequest", "no namespace on request");
      const rules = authorizer.rulesFor(user, namespace);
      return withStatus(object, {
        resourceRules: rules.filter((rule) => rule.resources?.length).map(resourceRule),
        nonResourceRules: rules
          .filter((rule) => rule.nonResourceURLs?.length)
          .map(({ verbs, nonResourceURLs = [] }) => ({ verbs, nonResourceURLs })),
        incomplete: false,
      });
    },
    selfSubjectReview: async (object, { user }) => withStatus(object, { userInfo: userObject(user) }),
    tokenReview: async (object) => {
      const spec = specOf(object);
      const token = text(spec, "token");
      if (token === "") throw statusError("BadRequest", "token is required for TokenReview in authentication");
      const audiences = texts(spec, "audiences");
      const asked = audiences.length > 0 ? audiences : tokens.audiences;
      const verified = tokens.verify(token, asked);
      if (verified !== undefined) {
        return withStatus(object, {
          authenticated: true,
          user: userObject(withAuthenticated(verified.user)),
          audiences: verified.audiences,
        });
      }
      // Static tokens are for this server and no other.
      const common = tokens.audiences.filter((audience) => asked.includes(audience));
      for (const authenticate of common.length > 0 ? staticTokens : []) {
        const user = authenticate(token);
        if (user !== undefined) {
          return withStatus(object, { authenticated: true, user: userObject(withAuthenticated(user)), audiences: common });
        }
      }
      return withStatus(object, { user: {}, error: "invalid bearer token" });
    },
    tokenRequest: async (object, { namespace, name }) => {
      const account = store.get(storageKey({ group: "", plural: "serviceaccounts" }, namespace, name))?.object.metadata;
      if (account?.uid === undefined) {
        throw statusError("NotFound", `serviceaccounts ${JSON.stringify(name)} not found`, { name, kind: "serviceaccounts" });
      }
      const spec = specOf(object);
      const expirationSeconds = spec["expirationSeconds"] ?? hourSeconds;
      if (typeof expirationSeconds !== "number" || !Number.isInteger(expirationSeconds)) {
        throw invalid(
          object,
          "spec.expirationSeconds",
          `Invalid value: ${JSON.stringify(expirationSeconds)}: must be an integer`,
        );
      }
      if (expirationSeconds < minTokenSeconds) {
        throw invalid(
          object,
          "spec.expirationSeconds",
          `Invalid value: ${expirationSeconds}: may not specify a duration less than 10 minutes`,
        );
      }
      if (expirationSeconds > maxTokenSeconds) {
        throw invalid(
          object,
          "spec.expirationSeconds",
          `Invalid value: ${expirationSeconds}: may not specify a duration larger than 2^32 seconds`,
        );
      }
      const audiences = texts(spec, "audiences");
      const bound = readBound(store, spec["boundObjectRef"], namespace, name);
      const { token, expiresAt } = tokens.issue({
        account: { namespace, name, uid: account.uid },
        audiences,
        expirationSeconds,
        bound,
      });
      const spoken = {
        ...spec,
        audiences: audiences.length > 0 ? audiences : tokens.audiences,
        expirationSeconds,
        boundObjectRef: spec["boundObjectRef"] ?? null,
      };
      const expirationTimestamp = `${new Date(expiresAt).toISOString().slice(0, 19)}Z`;
      return {
        ...withStatus(object, { token, expirationTimestamp }),
        metadata: { ...object.metadata, name, namespace },
        spec: spoken,
      } as KubernetesObject;
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

/** A review is of a resource or of a path, never of both. */
function accessCauses(object: KubernetesObject): StatusCause[] {
  const resource = isJsonObject(specOf(object)["resourceAttributes"]);
  const path = isJsonObject(specOf(object)["nonResourceAttributes"]);
  if (resource && path) {
    const detail = "cannot be specified in combination with resourceAttributes";
    return [invalidCause("spec.nonResourceAttributes", specOf(object)["nonResourceAttributes"], detail)];
  }
  if (resource || path) return [];
  const detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
  return [invalidCause("spec.resourceAttributes", null, detail)];
}

function subjectCauses(object: KubernetesObject): StatusCause[] {
  const { username, groups } = readSubject(object);
  if (username !== "" || groups.length > 0) return [];
  return [invalidCause("spec.user", "", "at least one of user or group must be specified")];
}

/** Nothing is stored, so there is nothing to name. */
function metadataCauses({ metadata }: KubernetesObject): StatusCause[] {
  const { managedFields: _, ...rest } = metadata;
  return Object.keys(rest).length === 0 ? [] : [invalidCause("metadata", metadata, "must be empty")];
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

function requireValid(object: KubernetesObject, causes: readonly StatusCause[]): void {
  if (causes.length > 0) throw invalidError({ group: authorizationGroup, kind: object.kind }, "", causes);
}

function readBound(store: Pick<Store, "get">, reference: unknown, namespace: string, account: string): BoundObject | undefined {
  if (!isJsonObject(reference)) return undefined;
  const kind = reference["kind"];
  const name = text(reference, "name");
  if (kind !== "Pod" && kind !== "Secret" && kind !== "Node") {
    throw statusError(
      "BadRequest",
      `cannot bind token to object of type ${JSON.stringify(kind ?? "")}: use Pod, Secret or Node`,
    );
  }
  const plural = `${kind.toLowerCase()}s`;
  const object = store.get(storageKey({ group: "", plural }, kind === "Node" ? "" : namespace, name))?.object;
  const uid = object?.metadata.uid;
  if (object === undefined || uid === undefined) {
    throw statusError("NotFound", `${plural} ${JSON.stringify(name)} not found`, { name, kind: plural });
  }
  const { spec } = object as { spec?: { serviceAccountName?: string } };
  if (kind === "Pod" && (spec?.serviceAccountName ?? "default") !== account) {
    throw statusError(
      "BadRequest",
      `cannot bind token for serviceaccount ${JSON.stringify(account)} to pod running with different serviceaccount name.`,
    );
  }
  const wanted = text(reference, "uid");
  if (wanted !== "" && wanted !== uid) {
    throw statusError(
      "Conflict",
      `Operation cannot be fulfilled on ${kind} ${JSON.stringify(name)}: the UID in the bound object reference (${wanted}) does not match the UID in record. The object might have been deleted and then recreated`,
      { name, kind },
    );
  }
  return { kind, name, uid };
}

function resourceRule({ verbs, apiGroups = [], resources = [], resourceNames = [] }: PolicyRule): unknown {
  return { verbs, apiGroups, resources, ...(resourceNames.length > 0 ? { resourceNames } : {}) };
}

function userObject(user: UserInfo): unknown {
  return {
    username: user.username,
    ...(user.uid ? { uid: user.uid } : {}),
    groups: user.groups,
    ...(user.extra && Object.keys(user.extra).length > 0 ? { extra: user.extra } : {}),
  };
}

function withStatus(object: KubernetesObject, status: Readonly<Record<string, unknown>>): KubernetesObject {
  return { ...object, status } as KubernetesObject;
}

function specOf(object: KubernetesObject): { readonly [key: string]: unknown } {
  const { spec } = object as { spec?: unknown };
  return isJsonObject(spec) ? spec : {};
}

function text(object: { readonly [key: string]: unknown }, key: string): string {
  const value = Object.hasOwn(object, key) ? object[key] : undefined;
  return typeof value === "string" ? value : "";
}

function texts(object: { readonly [key: string]: unknown }, key: string): string[] {
  const value = Object.hasOwn(object, key) ? object[key] : undefined;
  return Array.isArray(value) ? value.filter((element): element is string => typeof element === "string") : [];
}

function invalid(object: KubernetesObject, field: string, message: string): Error {
  const group = object.kind === "TokenRequest" || object.kind === "TokenReview" ? authenticationGroup : authorizationGroup;
  const cause: StatusCause = { reason: "FieldValueInvalid", message, field };
  return statusError("Invalid", `${object.kind}.${group} "" is invalid: ${field}: ${message}`, {
    group,
    kind: object.kind,
    causes: [cause],
  });
}
