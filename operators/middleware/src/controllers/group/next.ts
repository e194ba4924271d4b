import type { GroupStatus } from "../../api/group.ts";
import type { ErrorClass } from "../../api/parts.ts";
import type { Call, Effect } from "../effect.ts";
import type { View } from "./view.ts";

/** What a Group does next: one thing at a time. */
export type Next =
  /** Something else has to happen first. */
  | { readonly kind: "wait"; readonly message: string }
  /** To be recorded before it is done. */
  | {
      readonly kind: "record";
      readonly message: string;
      readonly change: (status: GroupStatus) => void;
      readonly step?: readonly [target: string, action: string];
    }
  /** To be done; doing it again does no harm. */
  | { readonly kind: "do"; readonly message: string; readonly effects: readonly Effect[] }
  | { readonly kind: "fail"; readonly message: string; readonly errorClass: ErrorClass }
  | { readonly kind: "settled" };

/** Waits for an event: a Pod, a volume, an agent that tells. */
export const wait = (message: string): Next => ({ kind: "wait", message });

/** A call whose answer needs no record: the agent tells what came of it. */
export function call(view: View, order: Call, message: string): Next {
  if (view.ip === undefined) return wait(`waits for the address of ${view.name}`);
  return { kind: "do", message, effects: [{ kind: "call", ip: view.ip, call: order, after: () => undefined }] };
}
