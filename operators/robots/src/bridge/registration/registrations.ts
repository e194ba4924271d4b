import { type DeepReadonly, isAlreadyExists } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { Cache, Logger } from "@keelson/controller";
import { joinTokenAnnotation } from "../../api/names.ts";
import { Robot } from "../../api/robot.ts";
import { credentialAnnotation } from "../../identity/robot-authentication.ts";
import { identityOf, type RobotIdentity } from "../../identity/robot-identity.ts";
import { joinTokenDigest } from "../../identity/secret.ts";
import type { RegisterMessage } from "../../protocol/messages.ts";

/** Maximum number of Robots that registrations can create. */
const maxRobots = 1000;

/** Result of a registration or heartbeat. */
export type Registration =
  | { readonly kind: "accepted"; readonly robot: DeepReadonly<Robot> }
  | { readonly kind: "rejected"; readonly reason: string };

/** Options of {@link Registrations}. */
export interface RegistrationsOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly namespace: string;
  readonly isJoinToken: (token: string) => boolean;
  /** Whether robots are bound to their credential: the broker must check it. */
  readonly bindsCredentials: boolean;
  readonly fieldManager: string;
  readonly log: Logger;
}

/**
 * Stores registrations: creates the Robot if it does not exist, and records the join token that the agent presented, for the
 * Robot controller to judge.
 *
 * **Guarantees**: without the join token, an agent can neither take over a Robot that another agent registered, nor keep it
 * alive, nor push the number of Robots over {@link maxRobots}. A Robot is bound to the first credential that registers with the join token;
 * an agent with another credential is rejected.
 */
export class Registrations {
  readonly #options: RegistrationsOptions;
  #creating = 0;

  constructor(options: RegistrationsOptions) {
    this.#options = options;
  }

  /** Stores a registration or heartbeat. Messages of one robot must be passed one after the other. */
  async store(
    message: RegisterMessage,
    { kind, isOwnTopic }: { readonly kind: "register" | "heartbeat"; readonly isOwnTopic: boolean },
  ): Promise<Registration> {
    const { cache, namespace } = this.#options;
    const digest = joinTokenDigest(message.token);
    const robot = cache.get(Robot, { namespace, name: message.robotId });
    const identity = identityOf(robot);
    if (isOwnTopic || identity !== undefined) {
      // Without it, a second agent with a copy of the key would go unnoticed.
      const isAnonymous = kind === "register" && message.instanceId === undefined;
      return storeKeyed(robot, identity, { isOwnTopic, isAnonymous });
    }
    return robot === undefined ? await this.#create(message, digest) : await this.#update(robot, message, digest);
  }

  async #create(message: RegisterMessage, digest: string): Promise<Registration> {
    const { client, cache, namespace, fieldManager, log } = this.#options;
    if (cache.list(Robot, { namespace }).length + this.#creating >= maxRobots) {
      return { kind: "rejected", reason: `too many robots: at most ${maxRobots} can register` };
    }
    this.#creating++;
    try {
      const robot = await client.create(
        Robot,
        {
          metadata: {
            name: message.robotId,
            namespace,
            annotations: { [joinTokenAnnotation]: digest, ...this.#newBinding(message) },
          },
          spec: { robotId: message.robotId, ...(message.labels === undefined ? {} : { labels: message.labels }) },
        },
        { fieldManager },
      );
      log.info({ robot: message.robotId }, "new robot registered");
      return { kind: "accepted", robot };
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return await this.#update(await client.get(Robot, { namespace, name: message.robotId }), message, digest);
    } finally {
      this.#creating--;
    }
  }

  async #update(robot: DeepReadonly<Robot>, message: RegisterMessage, digest: string): Promise<Registration> {
    const { client, namespace, isJoinToken, fieldManager } = this.#options;
    const known = robot.metadata.annotations?.[joinTokenAnnotation];
    const bound = robot.metadata.annotations?.[credentialAnnotation];
    if (this.#options.bindsCredentials && bound !== undefined && (message.credentialSha256 ?? bound) !== bound) {
      return { kind: "rejected", reason: `${message.robotId} is bound to the credential of another agent` };
    }
    const binding = bound === undefined ? this.#newBinding(message) : {};
    if (known === digest && Object.keys(binding).length === 0) return { kind: "accepted", robot };
    if (known !== undefined && known !== digest && !isJoinToken(message.token)) {
      return {
        kind: "rejected",
        reason: "the join token is neither the current one nor the one that the robot registered with before",
      };
    }
    // With the resourceVersion, of two agents that join at the same time only one binds the robot.
    const { resourceVersion } = robot.metadata;
    const body = { metadata: { resourceVersion, annotations: { [joinTokenAnnotation]: digest, ...binding } } };
    const key = { namespace, name: message.robotId };
    return { kind: "accepted", robot: await client.patch(Robot, key, { type: "merge", body }, { fieldManager }) };
  }

  /** The annotation that binds a robot to the credential of its agent. The join token is required for it. */
  #newBinding({ credentialSha256, token }: RegisterMessage): Readonly<Record<string, string>> {
    const { bindsCredentials, isJoinToken } = this.#options;
    if (!bindsCredentials || credentialSha256 === undefined || !isJoinToken(token)) return {};
    return { [credentialAnnotation]: credentialSha256 };
  }
}

/** A robot with a key needs no join token: the broker lets only this robot publish to its own topic. */
function storeKeyed(
  robot: DeepReadonly<Robot> | undefined,
  identity: RobotIdentity | undefined,
  { isOwnTopic, isAnonymous }: { readonly isOwnTopic: boolean; readonly isAnonymous: boolean },
): Registration {
  const reject = (reason: string): Registration => ({ kind: "rejected", reason });
  if (robot === undefined || identity === undefined) return reject("the robot has not joined, or was deleted");
  if (identity.isRevoked) return reject("the robot's key is revoked");
  if (!isOwnTopic) return reject("the robot has joined with a key and must register on its own topic");
  return isAnonymous ? reject("the registration of a robot with a key must have an instanceId") : { kind: "accepted", robot };
}
