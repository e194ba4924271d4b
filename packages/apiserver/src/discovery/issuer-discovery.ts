import type { JsonWebKey } from "../auth/authentication/service-account-tokens.ts";
import type { RawOutcome } from "../endpoints/outcome.ts";

/** The issuer of service account tokens, for services that verify tokens without asking the API server. */
export interface TokenIssuer {
  /** The claim `iss`. */
  readonly issuer: string;
  readonly verificationKeys: readonly JsonWebKey[];
}

/** Where the keys of the issuer are served. */
const keysPath = "/openid/v1/jwks";

/**
 * Serves OpenID provider configuration and keys (KEP-1393): `/.well-known/openid-configuration` and `/openid/v1/jwks`. Undefined for other
 * paths.
 *
 * @param url the origin at which the client finds the keys
 */
export function issuerDiscovery(path: string, { issuer, verificationKeys }: TokenIssuer, url: string): RawOutcome | undefined {
  if (path === keysPath) return json("application/jwk-set+json", { keys: verificationKeys });
  if (path !== "/.well-known/openid-configuration") return undefined;
  return json("application/json", {
    issuer,
    jwks_uri: `${url}${keysPath}`,
    response_types_supported: ["id_token"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: [...new Set(verificationKeys.map(({ alg }) => alg))],
  });
}

/** The Service `kubernetes`, by the names in its cluster. */
const serviceName = /^kubernetes(\.default(\.svc(\.cluster\.local)?)?)?$/i;

/**
 * The origin at which a client finds the keys that has addressed the API server as the Service `kubernetes`: Pods with a network of their
 * own may not reach another address. Undefined for other clients.
 */
export function keysOrigin(host: string | undefined, clusterIp: string): string | undefined {
  const [name = "", port = "443"] = host?.split(":") ?? [];
  const isService = name === clusterIp || serviceName.test(name);
  return isService && /^\d{1,5}$/.test(port) ? `https://${name}${port === "443" ? "" : `:${port}`}` : undefined;
}

function json(type: string, body: unknown): RawOutcome {
  const headers = { "content-type": type, "cache-control": "public, max-age=3600", vary: "Host" };
  return { kind: "raw", status: 200, headers, body: JSON.stringify(body) };
}
