import type { GroupStatus } from "../../api/group.ts";
import type { ErrorClass } from "../../api/parts.ts";
import type { Call, Effect } from "../effect.ts";
import type { PodView } from "./pod-view.ts";

/** The next step of a Group. */
export type Next =
  /** Waits for an event, or until `dueMs`. */
  | { readonly kind: "wait"; readonly message: string; readonly dueMs?: number }
  /** Records an intent before it is executed. */
  | {
      readonly kind: "record";
      readonly message: string;
      readonly change: (status: GroupStatus) => void;
      readonly step?: readonly [target: string, action: string];
    }
  /** Performs idempotent effects. */
  | { readonly kind: "do"; readonly message: string; readonly effects: readonly Effect[] }
  | { readonly kind: "fail"; readonly message: string; readonly errorClass: ErrorClass }
  | { readonly kind: "settled" };

/** Waits for an event of a Pod, a volume or an agent. */
export const wait = (message: string): Next => ({ kind: "wait", message });

/** Calls an agent. The response is not recorded: the agent reports its new role. */
export function call(view: PodView, order: Call, message: string): Next {
  if (view.ip === undefined) return wait(`waiting for the address of ${view.name}`);
  return { kind: "do", message, effects: [{ kind: "call", ip: view.ip, call: order, after: () => undefined }] };
}
