import type { Logger } from "@keelson/controller";
import { type JoinRequest, readJoinRequest } from "../identity/join-request.ts";
import { robotIdPattern } from "../protocol/messages.ts";

/** Each request is checked with the API server; further ones are rejected. */
const maxPendingJoins = 16;

/** Decides which agents may connect to join: their password is a join request that is valid. */
export class JoinGate {
  readonly #check: ((request: JoinRequest) => Promise<string | undefined>) | undefined;
  readonly #log: Logger;
  #pending = 0;

  /** `check` resolves to why a request is rejected, or undefined. Without it, all are. */
  constructor(check: ((request: JoinRequest) => Promise<string | undefined>) | undefined, log: Logger) {
    this.#check = check;
    this.#log = log;
  }

  /** Resolves to why an agent is rejected, or undefined. Never rejects. */
  async problem(robotId: string, password: Uint8Array | undefined): Promise<string | undefined> {
    const request = robotIdPattern.test(robotId) ? readJoinRequest(parseJson(password), robotId) : undefined;
    if (request === undefined) return "the join request is not valid";
    if (this.#check === undefined) return "this broker does not accept join requests";
    if (this.#pending >= maxPendingJoins) return "too many robots are joining; the agent retries";
    this.#pending++;
    try {
      return await this.#check(request);
    } catch (error) {
      this.#log.error({ robot: robotId, error: String(error) }, "could not check a join request");
      return "the request could not be checked; the agent retries";
    } finally {
      this.#pending--;
    }
  }
}

function parseJson(text: Uint8Array | undefined): unknown {
  try {
    return JSON.parse(Buffer.from(text ?? []).toString("utf8"));
  } catch {
    return undefined;
  }
}
