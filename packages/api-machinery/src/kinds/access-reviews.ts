import type { KubernetesObject } from "../objects/object.ts";
import type { ResourceType } from "../objects/resource.ts";

/** Authenticates a token. The API server answers a create and stores nothing. */
export interface TokenReviewObject extends KubernetesObject {
  readonly spec?: { readonly token?: string };
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: ReviewedUser;
  };
}

/** The user that a token belongs to. */
export interface ReviewedUser {
  readonly username?: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Asks whether a user may make a request. The API server answers a create and stores nothing. */
export interface SubjectAccessReviewObject extends KubernetesObject {
  readonly spec?: AccessSubject & {
    readonly resourceAttributes?: ResourceAttributes;
    readonly nonResourceAttributes?: { readonly path?: string; readonly verb?: string };
  };
  readonly status?: { readonly allowed?: boolean; readonly reason?: string };
}

/** The user whose permissions are reviewed. */
export interface AccessSubject {
  readonly user?: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** A request for a resource. Absent fields mean all namespaces, all names, or the core group. */
export interface ResourceAttributes {
  readonly verb?: string;
  readonly group?: string;
  readonly version?: string;
  readonly resource?: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

/** The resource of {@link TokenReviewObject}. */
export const TokenReview: ResourceType<TokenReviewObject> = {
  group: "authentication.k8s.io",
  version: "v1",
  kind: "TokenReview",
  plural: "tokenreviews",
  scope: "Cluster",
};

/** The resource of {@link SubjectAccessReviewObject}. */
export const SubjectAccessReview: ResourceType<SubjectAccessReviewObject> = {
  group: "authorization.k8s.io",
  version: "v1",
  kind: "SubjectAccessReview",
  plural: "subjectaccessreviews",
  scope: "Cluster",
};

/** The user name and groups of a ServiceAccount that the API server authenticated. */
export function serviceAccountSubject({ namespace, name }: { readonly namespace: string; readonly name: string }): {
  readonly user: string;
  readonly groups: readonly string[];
} {
  const groups = ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"];
  return { user: `system:serviceaccount:${namespace}:${name}`, groups };
}
