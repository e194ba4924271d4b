import { X509Certificate } from "node:crypto";
import { type DeepReadonly, ignoreNotFound, isAlreadyExists } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, Logger } from "@keelson/controller";
import { Robot } from "../../api/robot.ts";
import { isSignedBy, type JoinAnswer, type JoinRequest, keyDigest } from "../../identity/join-request.ts";
import { certifyRobot, type TrustedAuthority } from "../../identity/authority/robot-authority.ts";
import { certificateLifeMs } from "../../identity/certificate-life.ts";
import type { LazyAuthority } from "../../identity/authority/lazy-authority.ts";
import { boundDigest, identityOf, isRevoked } from "../../identity/robot-identity.ts";
import { retryOnConflict } from "../../identity/retry-on-conflict.ts";
import { readTokens, type StoredToken, tokenProblem, writeTokens } from "../../identity/token-store.ts";

const fieldManager = "robots-identity";

/** Options of {@link Joins}. */
export interface JoinsOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly namespace: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly authority: LazyAuthority;
}

/**
 * Exchanges one-time join tokens for certificates of keys that robots have generated, and renews these certificates.
 *
 * **Guarantees**: a token admits one Robot with one key. It is recorded as used before the Robot is bound to the key, so after a crash only the same
 * Robot with the same key can continue. A Robot that was deleted does not return with its token.
 */
export class Joins {
  readonly #options: JoinsOptions;
  /** The last use of a token. All tokens are in one Secret, so uses are recorded one after the other. */
  #lastUse: Promise<unknown> = Promise.resolve();

  constructor(options: JoinsOptions) {
    this.#options = options;
  }

  /** Why a request is rejected. Undefined if it may be answered. */
  async problem(request: JoinRequest): Promise<string | undefined> {
    const found = request.tokenId === undefined ? this.#renewalProblem(request) : await this.#findToken(request);
    return typeof found === "string" ? found : await this.#trustProblem(request);
  }

  /**
   * Answers a request. Requests of one robot must be passed one after the other.
   *
   * **Errors**: rejects if the API server cannot be reached, or if others keep changing the tokens; the agent retries.
   */
  async answer(request: JoinRequest): Promise<JoinAnswer> {
    const { nonce, tokenId } = request;
    if (tokenId === undefined) {
      const problem = this.#renewalProblem(request) ?? (await this.#trustProblem(request));
      return problem === undefined ? await this.#issue(request, undefined) : { nonce, rejected: problem };
    }
    const use = this.#lastUse.then(() => retryOnConflict(() => this.#useToken(request)));
    this.#lastUse = use.catch(() => {});
    const token = await use;
    return typeof token === "string" ? { nonce, rejected: token } : await this.#issue(request, token);
  }

  /** Creates the Robot if it does not exist, and records that it has used the token. Returns the token, or why the request is rejected. */
  async #useToken(request: JoinRequest): Promise<StoredToken | string> {
    const found = await this.#findToken(request);
    if (typeof found === "string") return found;
    const { token, resourceVersion } = found;
    const problem = (await this.#trustProblem(request)) ?? (await this.#robotProblem(request, token));
    if (problem !== undefined || token.used !== undefined) return problem ?? token;
    const { client, namespace, clock } = this.#options;
    const { robotId: robot, publicKey } = request;
    const robotUid = (await this.#ensureRobot(request, token)).metadata.uid ?? "";
    const at = new Date(clock.now()).toISOString();
    const write = [{ ...token, used: { robot, robotUid, keySha256: keyDigest(publicKey), at } }];
    await writeTokens({ client, namespace, fieldManager }, { write }, resourceVersion);
    return token;
  }

  #renewalProblem(request: JoinRequest): string | undefined {
    const { cache, namespace } = this.#options;
    const { robotId, publicKey } = request;
    const identity = identityOf(cache.get(Robot, { namespace, name: robotId }));
    if (identity?.publicKey !== publicKey || !isSignedBy(request, publicKey)) {
      return `robot ${robotId} is not bound to the agent's key; join again with a new token`;
    }
    return identity.isRevoked ? `the key of robot ${robotId} is revoked; join again with a new token` : undefined;
  }

  /** An authority that the robot does not trust would be of no use to it, and its token would be used up. */
  async #trustProblem({ robotId, trusts }: JoinRequest): Promise<string | undefined> {
    const authority = await this.#options.authority.get();
    if (authority.issuerFor(trusts) !== undefined) return undefined;
    return `robot ${robotId} does not trust the certificate authority, which was replaced; revoke its key, and join again with a new token`;
  }

  async #findToken(
    request: JoinRequest,
  ): Promise<string | { readonly token: StoredToken; readonly resourceVersion: string | undefined }> {
    const { client, namespace, clock } = this.#options;
    const { tokens, resourceVersion } = await readTokens({ client, namespace, fieldManager });
    const token = tokens.find(({ id }) => id === request.tokenId);
    if (token === undefined || !isSignedBy(request, token.publicKey)) {
      return `join token ${request.tokenId ?? ""} does not exist, or its secret is wrong`;
    }
    const { robotId, publicKey } = request;
    const robotUid = token.used === undefined ? undefined : (await this.#robotNamed(robotId))?.metadata.uid;
    const holder = { robotId, robotUid, keySha256: keyDigest(publicKey) };
    return tokenProblem(token, holder, clock.now()) ?? { token, resourceVersion };
  }

  /** Why the Robot, if it exists, cannot be bound to the request's key. */
  async #robotProblem({ robotId, publicKey }: JoinRequest, token: StoredToken): Promise<string | undefined> {
    const robot = await this.#robotNamed(robotId);
    if (robot === undefined) return undefined;
    const digest = keyDigest(publicKey);
    if (isRevoked(robot, digest)) return `the key of robot ${robotId} is revoked`;
    const identity = identityOf(robot);
    if (identity !== undefined && identity.keySha256 !== digest && !identity.isRevoked) {
      return `robot ${robotId} has joined with another key; revoke it first: keelson robots revoke ${robotId}`;
    }
    const bound = boundDigest(robot);
    if (identity === undefined && token.robot === undefined && bound !== undefined && !isRevoked(robot, bound)) {
      return `robot ${robotId} is bound to another agent; create a token for it: keelson robots token create --robot ${robotId}`;
    }
    const missing = Object.entries(token.labels ?? {}).find(([key, value]) => robot.spec.labels?.[key] !== value);
    return missing === undefined
      ? undefined
      : `robot ${robotId} lacks the label ${missing.join("=")} of join token ${token.id}`;
  }

  async #robotNamed(name: string): Promise<DeepReadonly<Robot> | undefined> {
    const { client, namespace } = this.#options;
    return await ignoreNotFound(client.get(Robot, { namespace, name }));
  }

  async #ensureRobot({ robotId, labels }: JoinRequest, token: StoredToken): Promise<DeepReadonly<Robot>> {
    const { client, namespace, log } = this.#options;
    const all = { ...labels, ...token.labels };
    try {
      const robot = await client.create(
        Robot,
        {
          metadata: { name: robotId, namespace },
          spec: { robotId, ...(Object.keys(all).length === 0 ? {} : { labels: all }) },
        },
        { fieldManager },
      );
      log.info({ robot: robotId, token: token.id }, "new robot joined");
      return robot;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return await client.get(Robot, { namespace, name: robotId });
    }
  }

  /** A key gets a new certificate when less than half of its life is left, or another authority issues it. Until then it gets the current one again. */
  async #issue(request: JoinRequest, token: StoredToken | undefined): Promise<JoinAnswer> {
    const { robotId, publicKey, nonce } = request;
    const { client, namespace, clock } = this.#options;
    const now = clock.now();
    const authority = await this.#options.authority.get();
    const issuer = authority.issuerFor(request.trusts);
    if (issuer === undefined) return { nonce, rejected: "the certificate authority was replaced" };
    const before = (await this.#robotNamed(robotId))?.status?.identity;
    const keySha256 = keyDigest(publicKey);
    const isCurrent =
      before?.keySha256 === keySha256 &&
      Date.parse(before.expires) - now > certificateLifeMs / 2 &&
      isIssuedBy(before.certificate, issuer);
    const certificate = isCurrent ? before.certificate : await certifyRobot(issuer, { robotId, publicKey, now });
    const requiresApproval = token === undefined ? before?.requiresApproval : token.requiresApproval;
    const tokenId = token?.id ?? before?.token;
    const earlier = earlierCertificates(before, now);
    const identity = {
      ...{ keySha256, publicKey, certificate },
      expires: new Date(new X509Certificate(certificate).validTo).toISOString(),
      ...(isCurrent || earlier.length === 0 ? {} : { earlier }),
      ...(tokenId === undefined ? {} : { token: tokenId }),
      ...(requiresApproval === true ? { requiresApproval } : {}),
    };
    if (!isCurrent) {
      await client.applyStatus(Robot, { metadata: { name: robotId, namespace }, status: { identity } }, { fieldManager });
    }
    return { nonce, certificate, authority: issuer.certificate, trust: authority.trust };
  }
}

/** Whether an authority has signed a certificate that the operator has stored. */
function isIssuedBy(certificate: string, { x509 }: TrustedAuthority): boolean {
  const stored = new X509Certificate(certificate);
  return stored.checkIssued(x509) && stored.verify(x509.publicKey);
}

/** The certificates of a Robot that have not expired, once it has got another one. */
function earlierCertificates(
  identity: DeepReadonly<NonNullable<Robot["status"]>>["identity"],
  now: number,
): { serial: string; keySha256: string; expires: string }[] {
  if (identity === undefined) return [];
  const { keySha256, expires, certificate, earlier = [] } = identity;
  const serial = new X509Certificate(certificate).serialNumber.toLowerCase();
  return [...earlier, { serial, keySha256, expires }]
    .filter((each) => Date.parse(each.expires) > now)
    .map((each) => ({ ...each }));
}
