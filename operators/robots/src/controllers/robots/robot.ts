import { isNotFound } from "@keelson/api-machinery";
import {
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  ignoreConflict,
} from "@keelson/controller";
import { joinTokenSecret } from "../../api/names.ts";
import { Robot } from "../../api/robot.ts";
import { Secret } from "../../api/secret.ts";
import { decideRobot, needsJoinToken, type RobotObservation } from "./robot-decision.ts";

const fieldManager = "robots-robot-controller";

/** Creates the controller that approves robots and sets their phase. */
export function createRobotController(): ControllerDefinition {
  let watchedSince: number | undefined;
  return defineController({
    name: "robots-robot",
    for: Robot,
    maxConcurrentReconciles: 4,
    reconcile(request, context) {
      watchedSince ??= context.clock.now();
      return reconcile(request, context, watchedSince);
    },
  });
}

async function reconcile(request: Request, context: ReconcileContext, watchedSince: number): Promise<Result | undefined> {
  const { cache, client, clock, events, signal } = context;
  const now = clock.now();
  const robot = cache.get(Robot, request);
  if (robot === undefined) return undefined;
  const joinToken = needsJoinToken(robot) ? await readJoinToken(request.namespace, context) : undefined;
  const decision = decideRobot({ robot, joinToken, watchedSince, now });
  if (decision.status !== undefined) {
    const { namespace, name } = request;
    const written = await ignoreConflict(
      client.applyStatus(
        Robot,
        {
          metadata: { name, namespace, resourceVersion: robot.metadata.resourceVersion },
          status: decision.status,
        },
        { fieldManager, signal },
      ),
    );
    if (written !== undefined && decision.event) events.event(robot, decision.event);
  }
  return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
}

async function readJoinToken(
  namespace: string | undefined,
  { client, signal }: ReconcileContext,
): Promise<RobotObservation["joinToken"]> {
  try {
    const secret = await client.get(Secret, { namespace, name: joinTokenSecret }, { signal });
    const token = secret.data?.token;
    if (token === undefined) return { missing: `the Secret ${joinTokenSecret} has no data.token` };
    return { value: Buffer.from(token, "base64").toString("utf8").trim() };
  } catch (error) {
    if (isNotFound(error)) return { missing: `Secret ${joinTokenSecret} not found in this namespace` };
    throw error;
  }
}
