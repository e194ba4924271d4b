import type { Clock } from "@keelson/api-machinery/time";
import type { Connection } from "@keelson/client";
import { ToolError } from "./tool-error.ts";
import type { ToolPlan } from "./tool-plan.ts";
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
  const { plan, clock, signal, connection } = run;
  const { action, ...limits } = plan;
  // Each action loads only what it needs, because a program starts for every step.
  if (action.kind === "http") {
    const { sendHttp } = await import("./http-tool.ts");
    return sendHttp({ request: action.http, ...limits, clock, signal });
  }
  const { performOnPod } = await import("./pod-action.ts");
  return performOnPod({ action, ...limits, clock, signal, connection });
}
