import { randomBytes } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { openMessage } from "../../identity/signed-message.ts";
import { keysOf, type SignedTrustBundle } from "../../identity/authority/trust-bundle.ts";
import { type RejectedMessage, topics } from "../../protocol/messages.ts";
import type { AgentIdentity } from "./agent-identity.ts";

/** Minimum time between two reports about dropped messages. */
const reportIntervalMs = 60_000;

/** Options of {@link GenuineMessages}. */
export interface GenuineMessagesOptions {
  readonly robotId: string;
  readonly identity: AgentIdentity;
  readonly clock: Clock;
  /** A clock in milliseconds that includes suspension and ignores changes of the wall clock. */
  readonly bootMs: () => number;
  readonly log: Logger;
  /** Reports a dropped message to the server. */
  readonly report: (message: RejectedMessage) => void;
  /** Called when the server's time becomes known: answers that arrived before were dropped. */
  readonly onTime: () => void;
  /** Called when the robot trusts other keys or authorities. */
  readonly onTrust: () => void;
  /** Registers again, to get newer keys and the time. */
  readonly register: () => void;
}

/**
 * Drops messages that the server has not signed for this robot, or that have expired. A robot without a key accepts all messages.
 *
 * The time is the server's: it is in the signed answer to a registration, which repeats a nonce of this agent. The robot's own clock may be
 * wrong, and a broker that replays an old answer cannot turn the time back.
 */
export class GenuineMessages {
  readonly #options: GenuineMessagesOptions;
  #nonce: string | undefined;
  /** The server's time minus the boot clock. */
  #offsetMs: number | undefined;
  #since: number | undefined;
  #reportedAt: number | undefined;
  #registeredFor: string | undefined;

  constructor(options: GenuineMessagesOptions) {
    this.#options = options;
  }

  /** The nonce for a registration. Undefined without a key. */
  nextNonce(): string | undefined {
    if (this.#options.identity.joined === undefined) return undefined;
    this.#nonce = randomBytes(12).toString("base64url");
    return this.#nonce;
  }

  /** The server's time in milliseconds; undefined until it is known. */
  get now(): number | undefined {
    return this.#offsetMs === undefined ? undefined : this.#offsetMs + this.#options.bootMs();
  }

  /** The server's time, in milliseconds, when this object first learned it. Messages that were issued earlier are for an earlier agent. */
  get since(): number | undefined {
    return this.#since;
  }

  /** Returns what the server has signed, or undefined if the message must be dropped. */
  async open(topic: string, payload: Uint8Array): Promise<Uint8Array | undefined> {
    const { robotId, identity } = this.#options;
    if (identity.joined === undefined) return payload;
    if (topic === topics.response(robotId)) return await this.#openResponse(topic, payload);
    const { now } = this;
    if (now === undefined) {
      this.#options.log.info({ topic }, "message dropped: the server's time is not known yet; the server will resend it");
      return undefined;
    }
    return this.#check(topic, payload, identity.joined, now);
  }

  async #openResponse(topic: string, payload: Uint8Array): Promise<Uint8Array | undefined> {
    const { identity, bootMs } = this.#options;
    const bundle = bundleOf(payload);
    const isNewTrust = bundle !== undefined && (await identity.trust(bundle));
    const { joined } = identity;
    const body = joined === undefined ? undefined : this.#check(topic, payload, joined, this.now);
    if (body === undefined) return undefined;
    const { nonce, time } = parse(body) ?? {};
    if (nonce === this.#nonce && this.#nonce !== undefined && typeof time === "number") {
      const isFirst = this.#offsetMs === undefined;
      this.#offsetMs = time - bootMs();
      this.#nonce = undefined;
      this.#since ??= time;
      if (isFirst) this.#options.onTime();
    }
    if (isNewTrust) {
      this.#options.onTrust();
      // The server learns what this robot trusts now.
      this.#options.register();
    }
    return body;
  }

  #check(
    topic: string,
    payload: Uint8Array,
    { trust }: NonNullable<AgentIdentity["joined"]>,
    now: number | undefined,
  ): Uint8Array | undefined {
    const opened = openMessage(topic, payload, { keys: keysOf(trust), now });
    if (opened.kind === "valid") return Buffer.from(opened.body);
    // Newer keys come with the answer to a registration. Once per bundle: forged messages must not cause a flood of registrations.
    if (opened.kind === "unknown-key" && this.#registeredFor !== String(trust.version)) {
      this.#registeredFor = String(trust.version);
      this.#options.register();
    }
    this.#dropped(topic, opened.reason);
    return undefined;
  }

  #dropped(topic: string, reason: string): void {
    const { clock, log, report } = this.#options;
    log.warn({ topic }, `message dropped: ${reason}`);
    const now = clock.monotonic();
    if (this.#reportedAt !== undefined && now - this.#reportedAt < reportIntervalMs) return;
    this.#reportedAt = now;
    report({ topic, reason });
  }
}

function parse(payload: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(payload).toString("utf8"));
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The bundle of a message. It is signed itself, so it is read before the message's signature is checked. */
function bundleOf(payload: Uint8Array): SignedTrustBundle | undefined {
  const trust = parse(payload)?.trust;
  if (!isJsonObject(trust) || typeof trust.text !== "string" || typeof trust.signature !== "string") return undefined;
  const { text, signature, signatures } = trust;
  const others = Array.isArray(signatures) ? signatures.filter((each) => typeof each === "string") : [];
  return { text, signature, ...(others.length === 0 ? {} : { signatures: others }) };
}
