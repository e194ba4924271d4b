import type { Timer } from "@keelson/api-machinery/time";
import type { AgentOptions } from "../../commands/start-agent.ts";
import { certificateLifeMs } from "../../identity/certificate-life.ts";
import { parseOneTimeToken } from "../../identity/one-time-token.ts";
import type { AgentLogin, ConnectMqtt } from "../agent-connection.ts";
import type { AgentIdentity, JoinedIdentity } from "./agent-identity.ts";
import { type JoinOptions, joinServer, renewCertificate } from "./join.ts";

/** Minimum pause between two attempts to renew the certificate. */
const minRenewPauseMs = 60_000;

/** When the server starts to issue certificates of another authority, robots renew theirs within this time, not all at the same time. */
const reissueSpreadMs = 60_000;

/** The time left is computed again after this time, because the clocks may change. */
const maxTimerMs = 86_400_000;

/** Options of an {@link AgentMembership}. */
export interface AgentMembershipOptions
  extends Pick<AgentOptions, "robotId" | "token" | "brokerUrl" | "joinUrl" | "labels" | "clock" | "log"> {
  readonly identity: AgentIdentity;
  readonly random: () => number;
  readonly connect?: ConnectMqtt;
  /** The server's time in milliseconds, if it is known. */
  readonly serverNow: () => number | undefined;
}

/** Joins the fleet with a one-time token and keeps the robot's certificate valid. */
export class AgentMembership {
  readonly #options: AgentMembershipOptions;
  readonly #stopped = new AbortController();
  /** The join or renewal that is under way. */
  #exchange: Promise<void> | undefined;
  #renewTimer: Timer | undefined;
  /** Pin of the authority whose certificate was requested because it issues certificates now. */
  #reissuedBy: string | undefined;

  constructor(options: AgentMembershipOptions) {
    this.#options = options;
  }

  /** The robot's certificate. Undefined if it has not joined. */
  get joined(): JoinedIdentity | undefined {
    return this.#options.identity.joined;
  }

  /** The pins of the authorities that the robot trusts. */
  get pins(): readonly string[] {
    return this.#options.identity.pins;
  }

  /** How the robot connects with its certificate. Undefined if it has not joined. */
  get login(): AgentLogin | undefined {
    const { joined } = this;
    return joined === undefined
      ? undefined
      : { certificate: joined.certificate, key: joined.key, authority: joined.authorities.join("") };
  }

  /** Joins if the agent has a token that this robot has not joined with, then calls `connect`. `again`: the current key was rejected. */
  join(connect: () => void, { again }: { readonly again: boolean }): void {
    const token = parseOneTimeToken(this.#options.token ?? "");
    if (token === undefined || (this.joined !== undefined && !again)) {
      this.#armRenewal();
      connect();
      return;
    }
    this.#run("could not join", async () => {
      await joinServer(token, this.#joinOptions());
      connect();
    });
  }

  /** Handles that the robot trusts other keys or authorities. */
  trustChanged(): void {
    if (this.#exchange === undefined) this.#armRenewal();
  }

  /** Handles that the broker rejected the key. Returns whether the agent has another token to join with; otherwise renews the certificate. */
  rejected(): boolean {
    const token = parseOneTimeToken(this.#options.token ?? "");
    if (token !== undefined && token.id !== this.joined?.tokenId) return true;
    this.#renew();
    return false;
  }

  async stop(): Promise<void> {
    this.#renewTimer?.cancel();
    this.#stopped.abort();
    await this.#exchange;
  }

  #joinOptions(): JoinOptions {
    const { brokerUrl, joinUrl, ...options } = this.#options;
    return {
      ...options,
      brokerUrl: joinUrl ?? brokerUrl,
      isExternal: joinUrl !== undefined,
      signal: this.#stopped.signal,
    };
  }

  /** Arms the renewal for when a third of the certificate's life is left, or another authority issues certificates. */
  #armRenewal(): void {
    this.#renewTimer?.cancel();
    const { clock, serverNow, random } = this.#options;
    if (this.joined === undefined || this.#stopped.signal.aborted) return;
    const { issuer = this.joined.issuer } = this.joined.trust;
    if (issuer !== this.joined.issuer && issuer !== this.#reissuedBy) {
      this.#renewTimer = clock.setTimer(
        random() * reissueSpreadMs,
        () => {
          this.#reissuedBy = issuer;
          this.#renew();
        },
        { background: true },
      );
      return;
    }
    if (issuer === this.joined.issuer) this.#reissuedBy = undefined;
    const remainingMs =
      issuer !== this.joined.issuer ? 0 : this.joined.expiresAt - certificateLifeMs / 3 - (serverNow() ?? clock.now());
    const delayMs = Math.min(Math.max(remainingMs, minRenewPauseMs), maxTimerMs);
    this.#renewTimer = clock.setTimer(delayMs, () => (remainingMs > delayMs ? this.#armRenewal() : this.#renew()), {
      background: true,
    });
  }

  #renew(): void {
    if (this.#exchange !== undefined) return;
    this.#run("could not renew the certificate; retrying", () => renewCertificate(this.#joinOptions()));
  }

  /** Runs an exchange after the one that is under way. */
  #run(failure: string, exchange: () => Promise<void>): void {
    const running: Promise<void> = (this.#exchange ?? Promise.resolve())
      .then(async () => {
        this.#stopped.signal.throwIfAborted();
        await exchange();
      })
      .catch((error: unknown) => {
        if (!this.#stopped.signal.aborted) this.#options.log.warn({ error: String(error) }, failure);
      })
      .finally(() => {
        if (this.#exchange !== running) return;
        this.#exchange = undefined;
        this.#armRenewal();
      });
    this.#exchange = running;
  }
}
