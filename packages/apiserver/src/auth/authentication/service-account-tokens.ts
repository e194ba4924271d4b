// Node's crypto instead of jose: signing is 5 times and verifying 3 times as fast, and synchronous.
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import type { UserInfo } from "../../registry/served-resource.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import { type ServiceAccountName, serviceAccountGroups, serviceAccountUser } from "./service-account.ts";

/** The default issuer and audience of tokens. */
export const defaultIssuer = "https://kubernetes.default.svc.cluster.local";

/** An object that a token is bound to: the token becomes invalid when the object is deleted. */
export interface BoundObject {
  readonly kind: "Pod" | "Secret" | "Node";
  readonly name: string;
  readonly uid: string;
  /** The node of a bound Pod. Informative: the token does not depend on it. */
  readonly node?: { readonly name: string; readonly uid: string | undefined };
}

/** The content of a token to issue. */
export interface TokenRequest {
  readonly account: ServiceAccountName & { readonly uid: string };
  /** Empty for this API server. */
  readonly audiences: readonly string[];
  readonly expirationSeconds: number;
  readonly bound?: BoundObject | undefined;
}

/** The user and audiences of a valid token. */
export interface VerifiedToken {
  readonly user: UserInfo;
  readonly audiences: readonly string[];
}

/** Signs and verifies the tokens of service accounts. */
export interface ServiceAccountTokens {
  /** The claim `iss` of issued tokens. */
  readonly issuer: string;
  /** The public keys that verify tokens, as JSON Web Keys (RFC 7517). */
  readonly verificationKeys: readonly JsonWebKey[];
  /** The audiences of this API server. */
  readonly audiences: readonly string[];
  issue(request: TokenRequest): { readonly token: string; readonly expiresAt: number };
  /**
   * Verifies a token: signature, validity period, one of `audiences` (default: this API server), and that its service account and bound
   * object still exist with the same uid. Returns undefined if it is not valid.
   */
  verify(token: string, audiences?: readonly string[]): VerifiedToken | undefined;
}

/** A public key that verifies tokens. */
export interface JsonWebKey {
  readonly use: string;
  readonly kid: string;
  readonly alg: string;
  readonly [parameter: string]: unknown;
}

/** What {@link createServiceAccountTokens} takes. */
export interface ServiceAccountTokensOptions {
  /** PEM; EC P-256 signs with ES256, RSA with RS256. */
  readonly privateKey: string;
  /** PEM of additional keys to verify with, such as old keys after a rotation. */
  readonly verifyingKeys?: readonly string[];
  readonly store: Pick<Store, "get">;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly newId: () => string;
  readonly issuer?: string;
}

/** Tolerated clock difference between issuer and verifier. */
const skewSeconds = 60;
/** Verified tokens to remember: verifying a signature costs more than the rest of a request. */
const maxVerified = 4_096;
const maxTokenLength = 16_384;

interface Claims {
  readonly account: ServiceAccountName & { readonly uid: string };
  readonly audiences: readonly string[];
  readonly notBefore: number;
  readonly expires: number;
  readonly id: string | undefined;
  readonly bound: BoundObject | undefined;
}

/** Creates a {@link ServiceAccountTokens} (JWT, RFC 7519; claims as in KEP-1205). Throws if a key is not supported. */
export function createServiceAccountTokens(options: ServiceAccountTokensOptions): ServiceAccountTokens {
  const { store, now, newId, issuer = defaultIssuer } = options;
  const audiencesOfServer = [issuer];
  const signingKey = createPrivateKey(options.privateKey);
  const algorithm = algorithmOf(signingKey);
  const keys = new Map<string, KeyObject>();
  for (const pem of [options.privateKey, ...(options.verifyingKeys ?? [])]) {
    const key = createPublicKey(pem);
    keys.set(keyId(key), key);
  }
  const header = encode({ alg: algorithm, kid: keyId(createPublicKey(options.privateKey)), typ: "JWT" });
  const verified = new Map<string, Claims>();

  function claimsOf(token: string): Claims | undefined {
    const known = verified.get(token);
    if (known !== undefined) return known;
    if (token.length > maxTokenLength) return undefined;
    const [head, payload, signature, ...rest] = token.split(".");
    if (head === undefined || payload === undefined || signature === undefined || rest.length > 0) return undefined;
    const { alg, kid } = decode(head) ?? {};
    const key = typeof kid === "string" ? keys.get(kid) : undefined;
    // The key determines the algorithm. A token with another one ("none", HS256 with a public key) is forged.
    if (key === undefined || alg !== algorithmOf(key)) return undefined;
    const bytes = Buffer.from(signature, "base64url");
    if (bytes.toString("base64url") !== signature) return undefined;
    if (!verify("sha256", Buffer.from(`${head}.${payload}`), { key, dsaEncoding: "ieee-p1363" }, bytes)) return undefined;
    const claims = readClaims(decode(payload), issuer);
    if (claims === undefined) return undefined;
    if (verified.size >= maxVerified) for (const oldest of verified.keys()) if (verified.delete(oldest)) break;
    verified.set(token, claims);
    return claims;
  }

  function exists(plural: string, namespace: string, name: string, uid: string): boolean {
    return store.get(storageKey({ group: "", plural }, namespace, name))?.object.metadata.uid === uid;
  }

  return {
    issuer,
    verificationKeys: [...keys].map(([kid, key]) => ({
      use: "sig",
      ...key.export({ format: "jwk" }),
      kid,
      alg: algorithmOf(key),
    })),
    audiences: audiencesOfServer,
    issue({ account, audiences, expirationSeconds, bound }) {
      const issuedAt = Math.floor(now() / 1000);
      const expires = issuedAt + expirationSeconds;
      const payload = encode({
        aud: audiences.length > 0 ? audiences : audiencesOfServer,
        exp: expires,
        iat: issuedAt,
        iss: issuer,
        jti: newId(),
        "kubernetes.io": {
          namespace: account.namespace,
          ...(bound ? { [bound.kind.toLowerCase()]: { name: bound.name, uid: bound.uid } } : {}),
          ...(bound?.node ? { node: bound.node } : {}),
          serviceaccount: { name: account.name, uid: account.uid },
        },
        nbf: issuedAt,
        sub: serviceAccountUser(account),
      });
      const signature = sign("sha256", Buffer.from(`${header}.${payload}`), { key: signingKey, dsaEncoding: "ieee-p1363" });
      return { token: `${header}.${payload}.${signature.toString("base64url")}`, expiresAt: expires * 1000 };
    },
    verify(token, audiences = audiencesOfServer) {
      const claims = claimsOf(token);
      if (claims === undefined) return undefined;
      const seconds = now() / 1000;
      if (seconds >= claims.expires) {
        verified.delete(token);
        return undefined;
      }
      if (seconds < claims.notBefore - skewSeconds) return undefined;
      const common = claims.audiences.filter((audience) => audiences.includes(audience));
      if (common.length === 0) return undefined;
      const { account, bound, id } = claims;
      if (!exists("serviceaccounts", account.namespace, account.name, account.uid)) return undefined;
      if (bound !== undefined) {
        const namespace = bound.kind === "Node" ? "" : account.namespace;
        if (!exists(`${bound.kind.toLowerCase()}s`, namespace, bound.name, bound.uid)) return undefined;
      }
      return {
        user: {
          username: serviceAccountUser(account),
          uid: account.uid,
          groups: serviceAccountGroups(account.namespace),
          extra: {
            ...(id === undefined ? {} : { "authentication.kubernetes.io/credential-id": [`JTI=${id}`] }),
            ...(bound?.kind === "Pod"
              ? { "authentication.kubernetes.io/pod-name": [bound.name], "authentication.kubernetes.io/pod-uid": [bound.uid] }
              : {}),
            ...nodeExtra(bound?.kind === "Node" ? bound : bound?.node),
          },
        },
        audiences: common,
      };
    },
  };
}

function nodeExtra(node: { readonly name: string; readonly uid: string | undefined } | undefined): UserInfo["extra"] {
  if (node === undefined) return {};
  return {
    "authentication.kubernetes.io/node-name": [node.name],
    ...(node.uid === undefined ? {} : { "authentication.kubernetes.io/node-uid": [node.uid] }),
  };
}

function algorithmOf(key: KeyObject): "ES256" | "RS256" {
  if (key.asymmetricKeyType === "rsa") return "RS256";
  if (key.asymmetricKeyType === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1") return "ES256";
  throw new TypeError(`a ${String(key.asymmetricKeyType)} key cannot sign service-account tokens: use EC P-256 or RSA`);
}

function keyId(key: KeyObject): string {
  return createHash("sha256")
    .update(key.export({ type: "spki", format: "der" }))
    .digest("base64url");
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decode(part: string): { readonly [key: string]: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function readClaims(payload: { readonly [key: string]: unknown } | undefined, issuer: string): Claims | undefined {
  if (payload === undefined || payload["iss"] !== issuer) return undefined;
  const own = payload["kubernetes.io"];
  const account = isJsonObject(own) ? named(own["serviceaccount"]) : undefined;
  if (!isJsonObject(own) || typeof own["namespace"] !== "string" || account === undefined) return undefined;
  const { namespace } = own;
  if (payload["sub"] !== serviceAccountUser({ namespace, name: account.name })) return undefined;
  const { aud, exp, nbf, jti } = payload;
  if (typeof exp !== "number" || (nbf !== undefined && typeof nbf !== "number")) return undefined;
  const bound = (["Pod", "Secret", "Node"] as const).flatMap((kind) => {
    const object = named(own[kind.toLowerCase()]);
    return object === undefined ? [] : [{ kind, ...object }];
  });
  return {
    account: { namespace, ...account },
    audiences: (Array.isArray(aud) ? aud : [aud]).filter((audience): audience is string => typeof audience === "string"),
    notBefore: nbf ?? 0,
    expires: exp,
    id: typeof jti === "string" ? jti : undefined,
    bound: bound[0]?.kind === "Pod" ? { ...bound[0], ...boundNode(own["node"]) } : bound[0],
  };
}

function boundNode(value: unknown): Pick<BoundObject, "node"> {
  if (!isJsonObject(value) || typeof value["name"] !== "string") return {};
  return { node: { name: value["name"], uid: typeof value["uid"] === "string" ? value["uid"] : undefined } };
}

function named(value: unknown): { readonly name: string; readonly uid: string } | undefined {
  if (!isJsonObject(value) || typeof value["name"] !== "string" || typeof value["uid"] !== "string") return undefined;
  return { name: value["name"], uid: value["uid"] };
}
