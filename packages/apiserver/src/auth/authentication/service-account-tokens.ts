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
  return new JwtTokens(options);
}

class JwtTokens implements ServiceAccountTokens {
  readonly issuer: string;
  readonly verificationKeys: readonly JsonWebKey[];
  readonly audiences: readonly string[];
  readonly #options: ServiceAccountTokensOptions;
  readonly #signingKey: KeyObject;
  /** Keys to verify with, by id. */
  readonly #keys: ReadonlyMap<string, KeyObject>;
  /** The encoded header of issued tokens. */
  readonly #header: string;
  readonly #verified = new Map<string, Claims>();

  constructor(options: ServiceAccountTokensOptions) {
    const { privateKey, verifyingKeys = [], issuer = defaultIssuer } = options;
    this.issuer = issuer;
    this.audiences = [issuer];
    this.#options = options;
    this.#signingKey = createPrivateKey(privateKey);
    const alg = algorithmOf(this.#signingKey);
    const keys = [privateKey, ...verifyingKeys].map((pem) => createPublicKey(pem));
    this.#keys = new Map(keys.map((key) => [keyId(key), key]));
    this.verificationKeys = [...this.#keys].map(([kid, key]) => ({
      use: "sig",
      ...key.export({ format: "jwk" }),
      kid,
      alg: algorithmOf(key),
    }));
    this.#header = encode({ alg, kid: keyId(createPublicKey(privateKey)), typ: "JWT" });
  }

  issue({ account, audiences, expirationSeconds, bound }: TokenRequest): {
    readonly token: string;
    readonly expiresAt: number;
  } {
    const issuedAt = Math.floor(this.#options.now() / 1000);
    const expires = issuedAt + expirationSeconds;
    const payload = encode({
      aud: audiences.length > 0 ? audiences : this.audiences,
      exp: expires,
      iat: issuedAt,
      iss: this.issuer,
      jti: this.#options.newId(),
      "kubernetes.io": {
        namespace: account.namespace,
        ...(bound ? { [bound.kind.toLowerCase()]: { name: bound.name, uid: bound.uid } } : {}),
        ...(bound?.node ? { node: bound.node } : {}),
        serviceaccount: { name: account.name, uid: account.uid },
      },
      nbf: issuedAt,
      sub: serviceAccountUser(account),
    });
    const content = `${this.#header}.${payload}`;
    const signature = sign("sha256", Buffer.from(content), { key: this.#signingKey, dsaEncoding: "ieee-p1363" });
    return { token: `${content}.${signature.toString("base64url")}`, expiresAt: expires * 1000 };
  }

  verify(token: string, audiences: readonly string[] = this.audiences): VerifiedToken | undefined {
    const claims = this.#claimsOf(token);
    if (claims === undefined) return undefined;
    const seconds = this.#options.now() / 1000;
    if (seconds >= claims.expires) {
      this.#verified.delete(token);
      return undefined;
    }
    if (seconds < claims.notBefore - skewSeconds) return undefined;
    const common = claims.audiences.filter((audience) => audiences.includes(audience));
    if (common.length === 0) return undefined;
    const { account, bound } = claims;
    if (!this.#exists("serviceaccounts", account.namespace, account)) return undefined;
    if (bound !== undefined) {
      const namespace = bound.kind === "Node" ? "" : account.namespace;
      if (!this.#exists(`${bound.kind.toLowerCase()}s`, namespace, bound)) return undefined;
    }
    return { user: userOf(claims), audiences: common };
  }

  /** The claims of a token with a valid signature. */
  #claimsOf(token: string): Claims | undefined {
    const known = this.#verified.get(token);
    if (known !== undefined) return known;
    if (token.length > maxTokenLength) return undefined;
    const [head, payload, signature, ...rest] = token.split(".");
    if (head === undefined || payload === undefined || signature === undefined || rest.length > 0) return undefined;
    const { alg, kid } = decode(head) ?? {};
    const key = typeof kid === "string" ? this.#keys.get(kid) : undefined;
    // The key determines the algorithm. A token with another one ("none", HS256 with a public key) is forged.
    if (key === undefined || alg !== algorithmOf(key)) return undefined;
    const bytes = Buffer.from(signature, "base64url");
    if (bytes.toString("base64url") !== signature) return undefined;
    if (!verify("sha256", Buffer.from(`${head}.${payload}`), { key, dsaEncoding: "ieee-p1363" }, bytes)) return undefined;
    const claims = readClaims(decode(payload), this.issuer);
    if (claims === undefined) return undefined;
    if (this.#verified.size >= maxVerified)
      for (const oldest of this.#verified.keys()) if (this.#verified.delete(oldest)) break;
    this.#verified.set(token, claims);
    return claims;
  }

  #exists(plural: string, namespace: string, { name, uid }: { readonly name: string; readonly uid: string }): boolean {
    return this.#options.store.get(storageKey({ group: "", plural }, namespace, name))?.object.metadata.uid === uid;
  }
}

function userOf({ account, bound, id }: Claims): UserInfo {
  return {
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
