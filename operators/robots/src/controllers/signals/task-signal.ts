import { ignoreNotFound } from "@keelson/api-machinery";
import {
  type ControllerDefinition,
  defineController,
  ignoreConflict,
  type ReconcileContext,
  type Request,
  type Result,
} from "@keelson/controller";
import { Robot } from "../../api/robot.ts";
import { Task } from "../../api/task.ts";
import { TaskSignal } from "../../api/task-signal.ts";
import { decideSignal } from "./signal-decision.ts";

/** Field manager of the status of TaskSignals. The bridge, which records the robots' answers, uses it too. */
export const signalFieldManager = "robots-signals";

/** Sends TaskSignals to the robots of their tasks, fails those that are not confirmed, and deletes old ones. */
export const taskSignalController: ControllerDefinition = defineController({
  name: "robots-task-signal",
  for: TaskSignal,
  maxConcurrentReconciles: 4,
  reconcile,
});

async function reconcile(request: Request, context: ReconcileContext): Promise<Result | undefined> {
  const { cache, client, clock, events, signal: abort } = context;
  const { namespace, name } = request;
  const signal = cache.get(TaskSignal, request);
  if (signal === undefined || signal.metadata.deletionTimestamp !== undefined) return undefined;
  const task = cache.get(Task, { namespace, name: signal.spec.task });
  const robot = cache.get(Robot, { namespace, name: task?.spec.targetRobot ?? "" });
  const decision = decideSignal({ signal, task, robot, now: clock.now() });
  const { resourceVersion, uid } = signal.metadata;
  switch (decision.kind) {
    case "wait":
      return { requeueAfterMs: decision.requeueAfterMs };
    case "delete":
      await ignoreNotFound(client.delete(TaskSignal, request, { preconditions: { uid }, signal: abort }));
      return undefined;
    case "write": {
      const { status } = decision;
      const change = { metadata: { name, namespace, resourceVersion }, status };
      const written = await ignoreConflict(
        client.applyStatus(TaskSignal, change, { fieldManager: signalFieldManager, signal: abort }),
      );
      if (written !== undefined && status.phase === "Failed" && task !== undefined) {
        const note = `signal ${signal.spec.signal} (TaskSignal ${name}) was not delivered: ${status.message}`;
        events.event(task, { type: "Warning", reason: "SignalFailed", note });
      }
      return undefined;
    }
  }
}
