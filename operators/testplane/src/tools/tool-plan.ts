import type { DeepReadonly } from "@keelson/api-machinery";
import type { ExecAction, HttpAction, LogsAction, PortForwardAction } from "../api/tool-actions.ts";
import { textOf } from "../functions/read.ts";
import type { TestStep } from "../api/test-step.ts";

/** Environment variable with the plan of a tool. */
export const toolVariable = "KEELSON_TOOL";

/** What a tool does. */
export type ToolAction =
  | { readonly kind: "http"; readonly http: DeepReadonly<HttpAction> }
  | { readonly kind: "logs"; readonly logs: DeepReadonly<LogsAction> }
  | { readonly kind: "exec"; readonly exec: DeepReadonly<ExecAction> }
  | { readonly kind: "portForward"; readonly portForward: DeepReadonly<PortForwardAction> };

/** What a tool does, for which step. Passed to its Pod as JSON. */
export interface ToolPlan {
  readonly action: ToolAction;
  /** Namespace of the Pods that the action is about. */
  readonly namespace: string;
  /** When the tool gives up, in milliseconds since the epoch. It tries at least once. */
  readonly giveUpAtMs: number;
  /** Whether any HTTP status counts as success, because the step has checks of its own. */
  readonly acceptsAnyStatus: boolean;
}

/** The action of a step that a tool performs, or undefined. */
export function toolActionOf({ http, logs, exec, portForward }: DeepReadonly<TestStep>): ToolAction | undefined {
  if (http !== undefined) return { kind: "http", http };
  if (logs !== undefined) return { kind: "logs", logs };
  if (exec !== undefined) return { kind: "exec", exec };
  return portForward === undefined ? undefined : { kind: "portForward", portForward };
}

/** The action with its texts as text: an expression that is the whole text may have become a number or an object. */
export function withTexts(action: ToolAction): ToolAction {
  switch (action.kind) {
    case "http":
      return { kind: "http", http: requestWithTexts(action.http) };
    case "logs":
      return action;
    case "exec": {
      const { command, stdin, ...rest } = action.exec;
      return {
        kind: "exec",
        exec: { ...rest, command: command.map(textOf), ...(stdin === undefined ? {} : { stdin: textOf(stdin) }) },
      };
    }
    case "portForward": {
      const { http, send, ...rest } = action.portForward;
      return {
        kind: "portForward",
        portForward: {
          ...rest,
          ...(http === undefined ? {} : { http: requestWithTexts(http) }),
          ...(send === undefined ? {} : { send: textOf(send) }),
        },
      };
    }
  }
}

function requestWithTexts<T extends DeepReadonly<Pick<HttpAction, "body" | "headers">>>(request: T): T {
  const { body, headers } = request;
  return {
    ...request,
    ...(body === undefined ? {} : { body: textOf(body) }),
    ...(headers === undefined ? {} : { headers: headers.map(({ name, value }) => ({ name, value: textOf(value) })) }),
  };
}

/** Time that remains for storing the result before the step times out. */
const maxMarginMs = 2_000;

/** When a tool gives up, so that its result is stored before the step times out. */
export function giveUpAt(startedAtMs: number, deadlineMs: number): number {
  return deadlineMs - Math.min((deadlineMs - startedAtMs) / 5, maxMarginMs);
}
