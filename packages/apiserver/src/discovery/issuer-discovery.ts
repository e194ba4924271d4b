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
 * @param url the address of the API server, where clients find the keys
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

function json(type: string, body: unknown): RawOutcome {
  const headers = { "content-type": type, "cache-control": "public, max-age=3600" };
  return { kind: "raw", status: 200, headers, body: JSON.stringify(body) };
}
