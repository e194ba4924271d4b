import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { LazyAuthority } from "../identity/authority/lazy-authority.ts";
import type { RobotAuthority } from "../identity/authority/robot-authority.ts";
import { sealMessage } from "../identity/signed-message.ts";
import { type DispatchMessage, type ResponseMessage, topics } from "../protocol/messages.ts";

/** Options of {@link RobotMessages}. */
export interface RobotMessagesOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly authority: LazyAuthority;
  /** Whether a robot has joined with a key. Its agent accepts signed messages only. */
  readonly hasKey: (robotId: string) => boolean;
  /** Publishes a payload. It may be lost. */
  readonly publish: (topic: string, payload: string) => void;
}

/** Sends messages to robots, signed if the robot has joined with a key. Each message is signed anew when it is sent again. */
export class RobotMessages {
  readonly #options: RobotMessagesOptions;
  /** Nonce of each robot's last registration. */
  readonly #nonces = new Map<string, string>();

  constructor(options: RobotMessagesOptions) {
    this.#options = options;
  }

  /** Records the nonce of a registration. Responses to the robot repeat it, so that it can tell that they are fresh. */
  registered(robotId: string, nonce: string): void {
    this.#nonces.set(robotId, nonce);
  }

  /** Forgets a robot. */
  robotDeleted(robotId: string): void {
    this.#nonces.delete(robotId);
  }

  /** Sends a response. A robot with a key also gets the time and the keys that sign messages. */
  respond(robotId: string, response: ResponseMessage): void {
    const nonce = this.#nonces.get(robotId);
    this.#send(
      robotId,
      topics.response(robotId),
      ({ trust }) => ({
        ...response,
        ...(nonce === undefined ? {} : { nonce }),
        time: this.#options.clock.now(),
        trust,
      }),
      response,
    );
  }

  /** Sends a message on a topic of the robot. */
  send(robotId: string, topic: string, message: object): void {
    this.#send(robotId, topic, () => message, message);
  }

  /** Has a robot remove a task. */
  deleteTask(robotId: string, uid: string, attempt: number): void {
    const task = { metadata: { uid }, status: { attempt } } as DispatchMessage["task"];
    this.send(robotId, topics.dispatch(robotId), { action: "delete", task } satisfies DispatchMessage);
  }

  #send(robotId: string, topic: string, sealed: (authority: RobotAuthority) => object, plain: object): void {
    const { clock, log, authority, hasKey, publish } = this.#options;
    if (!hasKey(robotId)) {
      publish(topic, JSON.stringify(plain));
      return;
    }
    const seal = (loaded: RobotAuthority): void =>
      publish(topic, sealMessage(topic, sealed(loaded), loaded.signingKey, clock.now()));
    const { current } = authority;
    if (current !== undefined) {
      seal(current);
      return;
    }
    authority.get().then(seal, (error: unknown) => {
      log.warn(
        { robot: robotId, error: String(error) },
        "could not load the key that signs messages; the message will be resent later",
      );
    });
  }
}
