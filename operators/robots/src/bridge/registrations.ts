import { type DeepReadonly, isAlreadyExists } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { Cache, Logger } from "@keelson/controller";
import { joinTokenAnnotation } from "../api/names.ts";
import { Robot } from "../api/robot.ts";
import { joinTokenDigest } from "../controllers/robot-decision.ts";
import type { RegisterMessage } from "../protocol/messages.ts";

/** Most Robots that registrations may lead to. */
export const maxRobots = 1000;

/** What became of a registration or heartbeat. */
export type Registration =
  | { readonly kind: "taken"; readonly robot: DeepReadonly<Robot> }
  | { readonly kind: "refused"; readonly why: string };

/**
 * Brings a registration into the API: makes the Robot where there is none, and notes which join token it came with, for the
 * Robot controller to judge.
 *
 * **Guarantees**: who does not know the join token can neither take over a Robot that another registered, nor keep it alive,
 * nor push the number of Robots over {@link maxRobots}.
 */
export function createRegistrations(options: {
  readonly client: Client;
  readonly cache: Cache;
  readonly namespace: string;
  readonly isJoinToken: (token: string) => boolean;
  readonly fieldManager: string;
  readonly log: Logger;
}): { take(message: RegisterMessage): Promise<Registration> } {
  const { client, cache, namespace, isJoinToken, fieldManager, log } = options;
  let making = 0;

  const make = async (message: RegisterMessage, digest: string): Promise<Registration> => {
    if (cache.list(Robot, { namespace }).length + making >= maxRobots) {
      return { kind: "refused", why: `there are ${maxRobots} robots already, the most that may register` };
    }
    making++;
    try {
      const robot = await client.create(
        Robot,
        {
          metadata: { name: message.robotId, namespace, annotations: { [joinTokenAnnotation]: digest } },
          spec: { robotId: message.robotId, ...(message.labels === undefined ? {} : { labels: message.labels }) },
        },
        { fieldManager },
      );
      log.info({ robot: message.robotId }, "a new robot registered");
      return { kind: "taken", robot };
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return await meet(await client.get(Robot, { namespace, name: message.robotId }), message, digest);
    } finally {
      making--;
    }
  };
  const meet = async (robot: DeepReadonly<Robot>, message: RegisterMessage, digest: string): Promise<Registration> => {
    const known = robot.metadata.annotations?.[joinTokenAnnotation];
    if (known === digest) return { kind: "taken", robot };
    if (known !== undefined && !isJoinToken(message.token)) {
      return {
        kind: "refused",
        why: "the join token is neither the present one nor the one that the robot registered with before",
      };
    }
    const body = { metadata: { annotations: { [joinTokenAnnotation]: digest } } };
    const key = { namespace, name: message.robotId };
    return { kind: "taken", robot: await client.patch(Robot, key, { type: "merge", body }, { fieldManager }) };
  };
  return {
    async take(message) {
      const digest = joinTokenDigest(message.token);
      const robot = cache.get(Robot, { namespace, name: message.robotId });
      return robot === undefined ? await make(message, digest) : await meet(robot, message, digest);
    },
  };
}
