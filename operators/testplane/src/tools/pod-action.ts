import type { Clock } from "@keelson/api-machinery/time";
import { type Connection, createClient, createHttpTransport } from "@keelson/client";
import type { PodSelection } from "../api/tool-actions.ts";
import { choosePod } from "./choose-pod.ts";
import { ToolError } from "./tool-error.ts";
import type { ToolAction, ToolPlan } from "./tool-plan.ts";
import type { ToolResult } from "./tool-report.ts";

/** An action on a Pod. */
type PodToolAction = Exclude<ToolAction, { kind: "http" }>;

/** Inputs of {@link performOnPod}. */
export interface PodActionRun extends Omit<ToolPlan, "action"> {
  readonly action: PodToolAction;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The connection of this Pod to its API server. */
  readonly connection: () => Promise<Connection | undefined>;
}

/** Chooses the Pod of an action and performs it there. Rejects with a `ToolError` if this Pod may not use the API server. */
export async function performOnPod({
  action,
  clock,
  signal,
  connection: connect,
  ...limits
}: PodActionRun): Promise<ToolResult> {
  const connection = await connect();
  if (connection === undefined) throw new ToolError("Forbidden", "this Pod has no credentials for the API server");
  const transport = createHttpTransport({ ...connection.transport, clock });
  const client = createClient({ transport, fieldManager: "keelson-test-tool", clock });
  const allowsEnded = action.kind === "logs";
  try {
    const pod = await choosePod({ client, selection: selectionOf(action), allowsEnded, ...limits, clock, signal });
    switch (action.kind) {
      case "logs": {
        const { readLogs } = await import("./logs-tool.ts");
        return await readLogs({ client, pod, logs: action.logs, ...limits, clock, signal });
      }
      case "exec": {
        const { execInPod } = await import("./exec-tool.ts");
        return await execInPod({ connection: connection.transport, pod, exec: action.exec, signal });
      }
      case "portForward": {
        const { forwardPort } = await import("./port-forward-tool.ts");
        return await forwardPort({ transport, pod, portForward: action.portForward, ...limits, clock, signal });
      }
    }
  } finally {
    await client.close();
  }
}

function selectionOf(action: PodToolAction): PodSelection {
  const { pod, labelSelector } =
    action.kind === "logs" ? action.logs : action.kind === "exec" ? action.exec : action.portForward;
  return { ...(pod === undefined ? {} : { pod }), ...(labelSelector === undefined ? {} : { labelSelector }) };
}
