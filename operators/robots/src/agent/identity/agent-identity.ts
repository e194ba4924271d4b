import { createPrivateKey, generateKeyPairSync, type KeyObject, X509Certificate } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { isJsonObject } from "@keelson/api-machinery";
import type { Logger } from "@keelson/controller";
import { openSealedText, sealText, writeFileAtomic } from "@keelson/execution/files";
import type { JoinAnswer } from "../../identity/join-request.ts";
import { openTrustBundle, pinOf, type SignedTrustBundle, type TrustBundle } from "../../identity/authority/trust-bundle.ts";
import { RobotsError } from "../../robots-error.ts";

/** A key that joins with a token and has no certificate yet. */
interface PendingKey {
  /** PKCS #8 PEM. */
  readonly key: string;
  readonly tokenId: string;
}

/** A key with its certificate. */
interface StoredKey extends PendingKey {
  readonly certificate: string;
  /** PEM of the authority that has signed the certificate. */
  readonly authority: string;
  readonly trust: SignedTrustBundle;
  /** PEM of the authorities that were trusted when `trust` was accepted. Unset: `authority`. */
  readonly roots?: readonly string[];
}

/** An identity as it is stored. The current key stays until another one has joined. */
interface StoredIdentity {
  readonly joined?: StoredKey;
  readonly pending?: PendingKey;
}

/** What a robot has after it joined. */
export interface JoinedIdentity {
  /** PEM. */
  readonly key: string;
  readonly certificate: string;
  /** Pin of the authority that has signed the certificate. */
  readonly issuer: string;
  /** PEM of the authorities that the robot trusts. */
  readonly authorities: readonly string[];
  readonly trust: TrustBundle;
  readonly tokenId: string;
  readonly expiresAt: number;
}

/**
 * A robot's key pair and certificate.
 *
 * **Guarantees**: the private key is generated here, is written to `file` and its copy only, and only their owner can read it. A certificate is accepted
 * only if it is for this robot and this key, and signed by the authority that the join token names. Damage of one of the two files is repaired.
 */
export class AgentIdentity {
  readonly #file: string;
  readonly #robotId: string;
  #stored: StoredIdentity;
  #joined: JoinedIdentity | undefined;

  private constructor(file: string, robotId: string, stored: StoredIdentity) {
    this.#file = file;
    this.#robotId = robotId;
    this.#stored = stored;
    this.#joined = joinedOf(stored.joined);
  }

  /** Reads the identity. **Errors**: {@link RobotsError} `InvalidIdentity` if neither the file nor its copy can be used. */
  static async open(file: string, robotId: string, log: Logger): Promise<AgentIdentity> {
    const own = await readStored(file);
    if (own.kind === "stored") return new AgentIdentity(file, robotId, own.identity);
    // An administrator has removed it, so that the robot joins again.
    if (own.kind === "missing") return new AgentIdentity(file, robotId, {});
    const copy = await readStored(copyOf(file));
    if (copy.kind !== "stored") {
      // Without this error, the robot would become one without a key, whose messages are not checked.
      const hint = "restore it, or remove it and join again with a new token";
      throw new RobotsError("InvalidIdentity", `${file} is damaged: ${hint}`, { cause: own.cause });
    }
    const identity = new AgentIdentity(file, robotId, copy.identity);
    try {
      await identity.#save(copy.identity);
      log.warn({ file }, "the robot's identity was damaged, and was repaired from its copy");
    } catch (error) {
      log.error({ file }, `the robot's identity is damaged, and could not be repaired from its copy: ${String(error)}`);
    }
    return identity;
  }

  /** Undefined until the robot has joined. */
  get joined(): JoinedIdentity | undefined {
    return this.#joined;
  }

  /** The key to join with. A token that was not tried yet gets a new key. */
  async keyFor(tokenId: string): Promise<KeyObject> {
    const { pending } = this.#stored;
    if (pending?.tokenId === tokenId) return createPrivateKey(pending.key);
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    await this.#save({ ...this.#stored, pending: { key, tokenId } });
    return privateKey;
  }

  /** The pins of the authorities that the robot trusts. Empty until it has joined. */
  get pins(): readonly string[] {
    return this.#joined?.authorities.map((pem) => pinOf(new X509Certificate(pem))) ?? [];
  }

  /** The robot's own key, which renews the certificate. Undefined until the robot has joined. */
  get ownKey(): KeyObject | undefined {
    return this.#joined === undefined ? undefined : createPrivateKey(this.#joined.key);
  }

  /**
   * Stores the answer to a join request.
   *
   * @param pin of the token; undefined for a renewal, which any trusted authority may answer
   *
   * **Errors**: {@link RobotsError} `JoinFailed` if the answer was rejected or is not genuine.
   */
  async accept(answer: JoinAnswer, pin: string | undefined): Promise<void> {
    if ("rejected" in answer) throw new RobotsError("JoinFailed", `the server rejected the request: ${answer.rejected}`);
    const { joined, pending } = this.#stored;
    const requested = pin === undefined ? joined : pending;
    if (requested === undefined) throw new RobotsError("JoinFailed", "no request was made");
    const problem = answerProblem(answer, this.#robotId, requested.key, pin === undefined ? this.pins : [pin]);
    if (problem !== undefined) throw new RobotsError("JoinFailed", `the response is not genuine: ${problem}`);
    const { certificate, authority, trust } = answer;
    // A renewal keeps the key that is about to join with another token.
    const rest = pin === undefined ? this.#stored : {};
    await this.#save({ ...rest, joined: { ...requested, certificate, authority, ...this.#newest(trust, authority) } });
  }

  /** Of two bundles of authorities that this robot trusts, the newer one: an answer that was delayed or replayed does not bring old keys back. */
  #newest(trust: SignedTrustBundle, authority: string): Pick<StoredKey, "trust" | "roots"> {
    const { joined } = this.#stored;
    const issuer = new X509Certificate(authority);
    const fresh = { trust, roots: [authority] };
    if (joined === undefined || this.#joined === undefined || !this.pins.includes(pinOf(issuer))) return fresh;
    const isOlder = (openTrustBundle(trust, [issuer])?.version ?? 0) < this.#joined.trust.version;
    return isOlder ? { trust: joined.trust, roots: rootsOf(joined) } : fresh;
  }

  /** Stores a trust bundle if a trusted authority has signed it and it is newer than the current one. Returns whether it was stored. */
  async trust(bundle: SignedTrustBundle): Promise<boolean> {
    const { joined } = this.#stored;
    if (joined === undefined || this.#joined === undefined) return false;
    const { authorities: roots } = this.#joined;
    const opened = openTrustBundle(bundle, certificatesOf(roots));
    if (opened === undefined || opened.version <= this.#joined.trust.version) return false;
    await this.#save({ ...this.#stored, joined: { ...joined, trust: bundle, roots } });
    return true;
  }

  async #save(stored: StoredIdentity): Promise<void> {
    await mkdir(dirname(this.#file), { recursive: true, mode: 0o700 });
    const text = sealText(JSON.stringify(stored));
    await writeFileAtomic(this.#file, text, { durable: true });
    await writeFileAtomic(copyOf(this.#file), text, { durable: true });
    this.#stored = stored;
    this.#joined = joinedOf(stored.joined);
  }
}

function answerProblem(
  answer: Exclude<JoinAnswer, { rejected: string }>,
  robotId: string,
  key: string,
  pins: readonly string[],
): string | undefined {
  try {
    const authority = new X509Certificate(answer.authority);
    const certificate = new X509Certificate(answer.certificate);
    if (!pins.includes(pinOf(authority)))
      return "its certificate authority is not one that the robot trusts or its join token names";
    if (!certificate.checkIssued(authority) || !certificate.verify(authority.publicKey)) return "another authority signed it";
    if (certificate.subject !== `CN=${robotId}`) return "the certificate is for another robot";
    if (!certificate.checkPrivateKey(createPrivateKey(key))) return "the certificate is for another key";
    return openTrustBundle(answer.trust, [authority]) === undefined ? "its keys are not signed" : undefined;
  } catch {
    return "it cannot be parsed";
  }
}

function joinedOf(stored: StoredKey | undefined): JoinedIdentity | undefined {
  if (stored === undefined) return undefined;
  const { key, certificate, authority, tokenId } = stored;
  const trust = openTrustBundle(stored.trust, certificatesOf(rootsOf(stored)));
  if (trust === undefined) return undefined;
  const { authorities = [authority] } = trust;
  const expiresAt = Date.parse(new X509Certificate(certificate).validTo);
  return { key, certificate, issuer: pinOf(new X509Certificate(authority)), authorities, trust, tokenId, expiresAt };
}

const rootsOf = ({ roots, authority }: StoredKey): readonly string[] => roots ?? [authority];

const certificatesOf = (pems: readonly string[]): readonly X509Certificate[] => pems.map((pem) => new X509Certificate(pem));

const copyOf = (file: string): string => `${file}.copy`;

type ReadIdentity =
  | { readonly kind: "stored"; readonly identity: StoredIdentity }
  | { readonly kind: "missing" }
  | { readonly kind: "damaged"; readonly cause: unknown };

async function readStored(file: string): Promise<ReadIdentity> {
  try {
    const content: unknown = JSON.parse(openSealedText(await readFile(file, "utf8")) ?? "");
    if (!isJsonObject(content)) throw new SyntaxError("not an object");
    const { joined, pending } = content as StoredIdentity;
    for (const { key } of [joined, pending].filter((each) => each !== undefined)) createPrivateKey(key);
    if (joined !== undefined && joinedOf(joined) === undefined) throw new SyntaxError("the keys are not signed");
    const identity = { ...(joined === undefined ? {} : { joined }), ...(pending === undefined ? {} : { pending }) };
    return { kind: "stored", identity };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? { kind: "missing" } : { kind: "damaged", cause: error };
  }
}
