import { createHash } from "node:crypto";
import { type DeepReadonly, parseJsonObject } from "@keelson/api-machinery";
import { allocationAnnotation, sandboxIdPattern } from "../api/names.ts";
import type { Sandbox } from "../api/sandbox.ts";

/** The id of an instance: the object's uid for the first, a hash of it for later ones, so that a repeated step uses the same id. */
export function instanceId(uid: string, instance: number): string {
  return instance === 0 ? uid : createHash("sha256").update(`${uid}/${instance}`).digest("hex").slice(0, 32);
}

/** The fast path's allocation of a Sandbox. Valid for the first instance only, although the annotation stays. */
export function fastPathAllocation(
  sandbox: DeepReadonly<Sandbox>,
): { readonly pod: string; readonly node: string; readonly sandboxId: string } | undefined {
  const text = sandbox.metadata.annotations?.[allocationAnnotation];
  if (text === undefined || (sandbox.status?.instance ?? 0) > 0) return undefined;
  const value = parseJsonObject(text);
  if (value === undefined) return undefined;
  const { assignedPod, assignedNode, sandboxID } = value;
  if (typeof assignedPod !== "string" || typeof sandboxID !== "string" || !sandboxIdPattern.test(sandboxID)) return undefined;
  return { pod: assignedPod, node: typeof assignedNode === "string" ? assignedNode : "", sandboxId: sandboxID };
}
