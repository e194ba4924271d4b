import { isJsonObject, type KubernetesObject, parseApiVersion, statusError } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { invalidCause, invalidError } from "@keelson/api-machinery/validation";
import { type Store, storageKey } from "../../storage/store.ts";
import { type TokenAuthenticator, withAuthenticated } from "../authentication/authenticator.ts";
import type { BoundObject, ServiceAccountTokens } from "../authentication/service-account-tokens.ts";
import { specOf, text, texts, userObject, withStatus } from "./review-fields.ts";
import type { Evaluate, Reviews } from "./review-kinds.ts";

const authenticationGroup = "authentication.k8s.io";
const hourSeconds = 3_600;
const minTokenSeconds = 600;
const maxTokenSeconds = 2 ** 32;

/** What {@link createTokenReviews} takes. */
export interface TokenReviewsOptions {
  readonly tokens: ServiceAccountTokens;
  /** Additional tokens that a TokenReview accepts. */
  readonly staticTokens?: readonly TokenAuthenticator[];
  readonly store: Pick<Store, "get">;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Creates the reviews of the group authentication.k8s.io. */
export function createTokenReviews(
  options: TokenReviewsOptions,
): Pick<Reviews, "selfSubjectReview" | "tokenReview" | "tokenRequest"> {
  return {
    selfSubjectReview: async (object, { user }) => {
      const creationTimestamp = formatTime(options.now());
      // kube-apiserver answers with its own object.
      return withStatus({ ...object, metadata: { creationTimestamp } }, { userInfo: userObject(user) });
    },
    tokenReview: async (object) => reviewToken(options, object),
    tokenRequest: async (object, request) => requestToken(options, object, request),
  };
}

function reviewToken({ tokens, staticTokens = [] }: TokenReviewsOptions, object: KubernetesObject): KubernetesObject {
  const spec = specOf(object);
  const token = text(spec, "token");
  if (token === "") throw statusError("BadRequest", "token is required for TokenReview in authentication");
  const audiences = texts(spec, "audiences");
  const requested = audiences.length > 0 ? audiences : tokens.audiences;
  const verified = tokens.verify(token, requested);
  if (verified !== undefined) {
    const user = userObject(withAuthenticated(verified.user));
    return withStatus(object, { authenticated: true, user, audiences: verified.audiences });
  }
  // Static tokens are valid for this server only.
  const common = tokens.audiences.filter((audience) => requested.includes(audience));
  for (const authenticate of common.length > 0 ? staticTokens : []) {
    const user = authenticate(token);
    if (user !== undefined) {
      return withStatus(object, { authenticated: true, user: userObject(withAuthenticated(user)), audiences: common });
    }
  }
  return withStatus(object, { user: {}, error: "invalid bearer token" });
}

function requestToken(
  { tokens, store, now }: TokenReviewsOptions,
  object: KubernetesObject,
  { namespace, name }: Parameters<Evaluate>[1],
): KubernetesObject {
  requireSameName(object, name);
  const account = store.get(storageKey({ group: "", plural: "serviceaccounts" }, namespace, name))?.object.metadata;
  if (account?.uid === undefined) {
    throw statusError("NotFound", `serviceaccounts ${JSON.stringify(name)} not found`, { name, kind: "serviceaccounts" });
  }
  const sentUid = object.metadata.uid ?? "";
  if (sentUid !== "" && sentUid !== account.uid) {
    throw conflict(
      { group: authenticationGroup, kind: "TokenRequest" },
      name,
      `the UID in the token request (${sentUid}) does not match the UID of the service account (${account.uid})`,
    );
  }
  const spec = specOf(object);
  const expirationSeconds = expirationOf(spec["expirationSeconds"] ?? hourSeconds);
  const audiences = texts(spec, "audiences");
  const bound = readBound(store, spec["boundObjectRef"], namespace, name);
  const { token, expiresAt } = tokens.issue({
    account: { namespace, name, uid: account.uid },
    audiences,
    expirationSeconds,
    bound,
  });
  const expirationTimestamp = formatTime(expiresAt);
  return {
    ...withStatus(object, { token, expirationTimestamp }),
    metadata: { ...object.metadata, name, namespace, uid: account.uid, creationTimestamp: formatTime(now()) },
    spec: {
      ...spec,
      audiences: audiences.length > 0 ? audiences : tokens.audiences,
      expirationSeconds,
      boundObjectRef: spec["boundObjectRef"] ?? null,
    },
  } as KubernetesObject;
}

/** The name in the body, if any, is that of the service account. */
function requireSameName({ metadata }: KubernetesObject, name: string): void {
  const given = metadata.name ?? "";
  if (given === "" || given === name) return;
  const causes = [invalidCause("metadata.name", given, "must match the service account name if specified")];
  throw invalidError({ group: authenticationGroup, kind: "TokenRequest" }, name, causes);
}

/** The conflict of a request that names another object than the stored one. */
function conflict({ group, kind }: { readonly group: string; readonly kind: string }, name: string, why: string): Error {
  const qualified = group === "" ? kind : `${kind}.${group}`;
  return statusError("Conflict", `Operation cannot be fulfilled on ${qualified} ${JSON.stringify(name)}: ${why}`, {
    name,
    ...(group === "" ? {} : { group }),
    kind,
  });
}

function expirationOf(seconds: unknown): number {
  if (typeof seconds !== "number" || !Number.isInteger(seconds)) {
    throw invalidExpiration(`Invalid value: ${JSON.stringify(seconds)}: must be an integer`);
  }
  if (seconds < minTokenSeconds) {
    throw invalidExpiration(`Invalid value: ${seconds}: may not specify a duration less than 10 minutes`);
  }
  if (seconds > maxTokenSeconds) {
    throw invalidExpiration(`Invalid value: ${seconds}: may not specify a duration larger than 2^32 seconds`);
  }
  return seconds;
}

function invalidExpiration(message: string): Error {
  const field = "spec.expirationSeconds";
  return statusError("Invalid", `TokenRequest.${authenticationGroup} "" is invalid: ${field}: ${message}`, {
    group: authenticationGroup,
    kind: "TokenRequest",
    causes: [{ reason: "FieldValueInvalid", message, field }],
  });
}

function readBound(store: Pick<Store, "get">, reference: unknown, namespace: string, account: string): BoundObject | undefined {
  if (!isJsonObject(reference)) return undefined;
  const kind = reference["kind"];
  const name = text(reference, "name");
  const { group, version } = parseApiVersion(text(reference, "apiVersion"));
  if (group !== "" || (kind !== "Pod" && kind !== "Secret" && kind !== "Node")) {
    const shown = `${group}/${version}, Kind=${text(reference, "kind")}`;
    throw statusError("BadRequest", `cannot bind token to object of type ${shown}`);
  }
  const plural = `${kind.toLowerCase()}s`;
  const object = store.get(storageKey({ group: "", plural }, kind === "Node" ? "" : namespace, name))?.object;
  const uid = object?.metadata.uid;
  if (object === undefined || uid === undefined) {
    throw statusError("NotFound", `${plural} ${JSON.stringify(name)} not found`, { name, kind: plural });
  }
  const { spec } = object as { spec?: { serviceAccountName?: string; nodeName?: string } };
  if (kind === "Pod" && (spec?.serviceAccountName ?? "default") !== account) {
    throw statusError(
      "BadRequest",
      `cannot bind token for serviceaccount ${JSON.stringify(account)} to pod running with different serviceaccount name.`,
    );
  }
  const wanted = text(reference, "uid");
  if (wanted !== "" && wanted !== uid) {
    throw conflict(
      { group: "", kind },
      name,
      `the UID in the bound object reference (${wanted}) does not match the UID in record. The object might have been deleted and then recreated`,
    );
  }
  return { kind, name, uid, ...(kind === "Pod" ? nodeOfPod(store, spec?.nodeName) : {}) };
}

function nodeOfPod(store: Pick<Store, "get">, name: string | undefined): Pick<BoundObject, "node"> {
  if (!name) return {};
  return { node: { name, uid: store.get(storageKey({ group: "", plural: "nodes" }, "", name))?.object.metadata.uid } };
}
