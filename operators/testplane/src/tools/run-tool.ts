import type { Clock } from "@keelson/api-machinery/time";
import { type Connection, createClient, createHttpTransport } from "@keelson/client";
import type { PodSelection } from "../api/tool-actions.ts";
import { type ChosenPod, choosePod } from "./choose-pod.ts";
import { execInPod } from "./exec-tool.ts";
import { sendHttp } from "./http-tool.ts";
import { readLogs } from "./logs-tool.ts";
import { forwardPort } from "./port-forward-tool.ts";
import { ToolError } from "./tool-error.ts";
import type { ToolAction, ToolPlan } from "./tool-plan.ts";
import type { ToolReport, ToolResult } from "./tool-report.ts";

/** Inputs of {@link runTool}. */
export interface ToolRun {
  readonly plan: ToolPlan;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The connection of this Pod to its API server. */
  readonly connection: () => Promise<Connection | undefined>;
}

/** Performs the action of a plan. Resolves to the result of the step; rejects only when aborted. */
export async function runTool(run: ToolRun): Promise<ToolReport> {
  const late = new AbortController();
  const { plan, clock } = run;
  // Most actions give up earlier, with a better message.
  const timer = clock.setTimer(Math.max(plan.giveUpAtMs - clock.now(), minRunMs) + graceMs, () => late.abort());
  try {
    const ended = new Promise<never>((_, reject) => {
      late.signal.addEventListener("abort", () => reject(late.signal.reason as Error), { once: true });
    });
    const signal = AbortSignal.any([run.signal, late.signal]);
    return { kind: "result", result: await Promise.race([perform({ ...run, signal }), ended]) };
  } catch (error) {
    run.signal.throwIfAborted();
    if (late.signal.aborted) return { kind: "error", reason: "Timeout", message: "the action did not finish in time" };
    if (error instanceof ToolError) return { kind: "error", reason: error.code, message: error.message };
    const message = error instanceof Error ? error.message : String(error);
    return { kind: "error", reason: failures[plan.action.kind], message };
  } finally {
    timer.cancel();
  }
}

const minRunMs = 1_000;
const graceMs = 500;

/** Reasons of failures without their own reason. */
const failures = { http: "NoResponse", logs: "LogsFailed", exec: "ExecFailed", portForward: "PortForwardFailed" } as const;

async function perform(run: ToolRun): Promise<ToolResult> {
  const { plan, clock, signal } = run;
  const { action, ...limits } = plan;
  if (action.kind === "http") return sendHttp({ request: action.http, ...limits, clock, signal });
  const connection = await run.connection();
  if (connection === undefined) throw new ToolError("Forbidden", "this Pod has no credentials for the API server");
  const transport = createHttpTransport({ ...connection.transport, clock });
  const client = createClient({ transport, fieldManager: "keelson-test-tool", clock });
  const allowsEnded = action.kind === "logs";
  try {
    const choice = { client, selection: selectionOf(action), allowsEnded, ...limits, clock, signal };
    const pod: ChosenPod = await choosePod(choice);
    switch (action.kind) {
      case "logs":
        return await readLogs({ client, pod, logs: action.logs, ...limits, clock, signal });
      case "exec":
        return await execInPod({ connection: connection.transport, pod, exec: action.exec, signal });
      case "portForward":
        return await forwardPort({ transport, pod, portForward: action.portForward, ...limits, clock, signal });
    }
  } finally {
    await client.close();
  }
}

function selectionOf(action: Exclude<ToolAction, { kind: "http" }>): PodSelection {
  const { pod, labelSelector } =
    action.kind === "logs" ? action.logs : action.kind === "exec" ? action.exec : action.portForward;
  return { ...(pod === undefined ? {} : { pod }), ...(labelSelector === undefined ? {} : { labelSelector }) };
}
