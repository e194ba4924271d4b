import { type DeepReadonly, ignoreNotFound, isNotFound } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { awaitObject, type CommandContext, type CommandDefinition } from "@keelson/operator";
import { randomBytes } from "node:crypto";
import { Task } from "../../api/task.ts";
import { TaskSignal, type TaskSignalName, taskSignals } from "../../api/task-signal.ts";
import { childName } from "../../work/child-name.ts";
import { namespaceFlag } from "../flags.ts";

/** `keelson robots signal TASK SIGNAL`. */
export const signalCommand: CommandDefinition = {
  name: "signal",
  description: "send a signal to the program of a running task: keelson robots signal TASK SIGHUP",
  args: ["TASK", "SIGNAL"],
  flags: [namespaceFlag],
  run: signalTask,
};

/** The signal of a name such as `SIGHUP`, `HUP` or `hup`. */
function signalNamed(text: string): TaskSignalName | undefined {
  const name = `SIG${text.toUpperCase().replace(/^SIG/, "")}`;
  return taskSignals.find((each) => each === name);
}

/** A signal is sent immediately, and fails when its robot has not confirmed it for 30 s. */
const maxWaitMs = 60_000;

async function signalTask(context: CommandContext): Promise<number> {
  const { args, flags, stdout, stderr, signal: abort } = context;
  const [task = "", text = ""] = args;
  const namespace = namespaceFlag.read(flags);
  const signal = signalNamed(text);
  if (signal === undefined) {
    stderr.write(`SIGNAL: ${JSON.stringify(text)} must be one of ${taskSignals.join(", ")}\n`);
    return 2;
  }
  const client = await context.client();
  try {
    // A misspelled name is reported without an object that has to fail.
    await client.get(Task, { namespace, name: task }, { signal: abort });
    const name = childName(task, "signal", randomBytes(5).toString("hex"));
    const key = { namespace, name };
    await client.create(TaskSignal, { metadata: key, spec: { task, signal } }, { signal: abort });
    const ended = await endOf(context, client, key);
    if (ended === "unanswered") {
      stderr.write(`the robots operator did not respond within ${maxWaitMs / 1000} s: check that it is running\n`);
      return 1;
    }
    if (ended?.phase !== "Delivered") {
      stderr.write(`${signal} was not delivered to task ${task}: ${ended?.message ?? `TaskSignal ${name} was deleted`}\n`);
      return 1;
    }
    stdout.write(`${signal} delivered to task ${task} on robot ${ended.robot}\n`);
    return 0;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    stderr.write(`task ${task} not found in namespace ${namespace}; list tasks: kubectl get rtask -n ${namespace}\n`);
    return 1;
  } finally {
    await client.close();
  }
}

/** Waits until a signal was delivered or failed. A signal that the operator does not process is deleted, so that it has no late effect. */
async function endOf(
  { clock, signal: abort }: CommandContext,
  client: Client,
  key: { readonly namespace: string; readonly name: string },
): Promise<DeepReadonly<NonNullable<TaskSignal["status"]>> | "unanswered" | undefined> {
  const timeout = new AbortController();
  const timer = clock.setTimer(maxWaitMs, () => timeout.abort());
  const wait = AbortSignal.any([abort, timeout.signal]);
  try {
    const isEnd = (phase: string | undefined): boolean => phase === "Delivered" || phase === "Failed";
    return await awaitObject(client, TaskSignal, key, ({ status }) => (isEnd(status?.phase) ? status : undefined), wait);
  } catch (error) {
    if (!wait.aborted) throw error;
    await ignoreNotFound(client.delete(TaskSignal, key));
    if (abort.aborted) throw error;
    return "unanswered";
  } finally {
    timer.cancel();
  }
}
