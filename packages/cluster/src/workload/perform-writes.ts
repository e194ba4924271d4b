import {
  type DeepReadonly,
  isAlreadyExists,
  isConflict,
  isNamespaceTerminating,
  isNotFound,
  type KubernetesObject,
  type ObjectKey,
} from "@keelson/api-machinery";
import type { ReconcileContext, Result } from "@keelson/controller";
import { controllerOf, partEvent, type PartWrite } from "./part-event.ts";
import type { Decision, Cached, Write } from "./write.ts";

/** `stale`: an object has changed since it was read; the watch event triggers the next reconcile. */
export type Outcome = "done" | "stale";

/**
 * Performs writes in order. Stops at the first one that conflicts with a newer version of its object, because the rest were decided
 * on the same outdated input.
 *
 * **Errors**: throws any other API error, after recording it as an event if the write has an owner.
 */
export async function performWrites(writes: readonly Write[], context: ReconcileContext): Promise<Outcome> {
  for (const write of writes) if (!(await perform(write, context))) return "stale";
  return "done";
}

/** Performs a decision and returns when to reconcile again. */
export async function applyDecision(decision: Decision, context: ReconcileContext): Promise<Result | undefined> {
  await performWrites(decision.writes, context);
  return resultOf(decision);
}

/** When to reconcile again, as the result of a reconcile. */
export function resultOf({ requeueAfterMs }: Decision): Result | undefined {
  // 0 would mean "never", so an overdue deadline becomes 1 ms.
  return requeueAfterMs === undefined ? undefined : { requeueAfterMs: Math.max(requeueAfterMs, 1) };
}

/** Returns false if the object has changed since it was read. */
async function perform(write: Write, context: ReconcileContext): Promise<boolean> {
  switch (write.kind) {
    case "event":
      context.events.event(write.regarding, { ...write, controller: controllerOf(write.regarding.kind ?? "") });
      return true;
    case "create":
      return await create(write, context);
    case "delete":
      return await remove(write, context);
    default:
      return await change(write, context);
  }
}

async function create(write: Extract<Write, { kind: "create" }>, context: ReconcileContext): Promise<boolean> {
  const { type, object, owner } = write;
  const { client, signal } = context;
  try {
    const { metadata } = await client.create(type, object, { signal });
    recordPartEvent(context, "create", { kind: type.kind, name: metadata.name ?? "" }, owner);
    return true;
  } catch (error) {
    if (write.mayExist && isAlreadyExists(error)) return true;
    // The namespace would delete the new object as well. The other writes may be what its deletion waits for.
    if (isNamespaceTerminating(error)) return true;
    if (signal.aborted) return false;
    recordPartEvent(context, "create", { kind: type.kind, name: object.metadata.name ?? "" }, owner, error);
    throw error;
  }
}

async function remove(write: Extract<Write, { kind: "delete" }>, context: ReconcileContext): Promise<boolean> {
  const { type, object, owner } = write;
  const { client, signal } = context;
  const { name = "", uid } = object.metadata;
  try {
    const preconditions = uid === undefined ? {} : { preconditions: { uid } };
    await client.delete(type, keyOf(object), { ...preconditions, propagationPolicy: "Background", signal });
  } catch (error) {
    // Deleted, or replaced by another object of this name.
    if (isNotFound(error) || isConflict(error)) return true;
    if (!signal.aborted) recordPartEvent(context, "delete", { kind: type.kind, name }, owner, error);
    throw error;
  }
  recordPartEvent(context, "delete", { kind: type.kind, name }, owner);
  return true;
}

async function change(
  write: Extract<Write, { kind: "update" | "status" | "patch" }>,
  { client, signal }: ReconcileContext,
): Promise<boolean> {
  try {
    if (write.kind === "patch") {
      const { uid, resourceVersion } = write.object.metadata;
      const metadata = { ...(write.body["metadata"] as object | undefined), uid, ...(write.force ? {} : { resourceVersion }) };
      const options = { signal, ...(write.subresource === undefined ? {} : { subresource: write.subresource }) };
      await client.patch(write.type, keyOf(write.object), { type: "merge", body: { ...write.body, metadata } }, options);
    } else if (write.kind === "status") {
      await client.updateStatus(write.type, write.object, { signal });
    } else {
      await client.update(write.type, write.object, { signal });
    }
    return true;
  } catch (error) {
    if (isConflict(error) || isNotFound(error)) return false;
    throw error;
  }
}

/** Records an event about a created or deleted part on its owner. */
function recordPartEvent(
  { events }: ReconcileContext,
  verb: PartWrite["verb"],
  part: PartWrite["part"],
  owner: Cached | undefined,
  error?: unknown,
): void {
  if (owner === undefined) return;
  const problem = error === undefined ? {} : { problem: error instanceof Error ? error.message : String(error) };
  const event = partEvent({ verb, part, owner: { kind: owner.kind ?? "", name: owner.metadata.name ?? "" }, ...problem });
  events.event(owner, { type: error === undefined ? "Normal" : "Warning", ...event });
}

function keyOf({ metadata: { namespace, name = "" } }: DeepReadonly<KubernetesObject>): ObjectKey {
  return { namespace, name };
}
