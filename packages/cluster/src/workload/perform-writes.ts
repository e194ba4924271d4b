import {
  type DeepReadonly,
  isAlreadyExists,
  isConflict,
  isNotFound,
  isStatusError,
  type KubernetesObject,
  type ObjectKey,
} from "@keelson/api-machinery";
import type { ReconcileContext, Result } from "@keelson/controller";
import { controllerOf, partEvent, type PartWrite } from "./event-words.ts";
import type { Decision, Seen, Write } from "./write.ts";

/** What came of writes: all done, or something was no longer as it had been read and the watch brings what it is now. */
export type Outcome = "done" | "moved-on";

/**
 * Does the writes one after the other. Ends early with `moved-on` at the first that was refused because its object has moved
 * on, since those after it were decided upon the same sight.
 *
 * **Errors**: throws what the server refuses otherwise, having told of it by an event where the write has an owner.
 */
export async function performWrites(writes: readonly Write[], context: ReconcileContext): Promise<Outcome> {
  for (const write of writes) if (!(await perform(write, context))) return "moved-on";
  return "done";
}

/** Does what was decided and returns when to look again. */
export async function carryOut(decision: Decision, context: ReconcileContext): Promise<Result | undefined> {
  await performWrites(decision.writes, context);
  return resultOf(decision);
}

/** When to look again, as a reconcile returns it. */
export function resultOf({ requeueAfterMs }: Decision): Result | undefined {
  // Never 0, which would mean not at all: a deadline that is due is due at once.
  return requeueAfterMs === undefined ? undefined : { requeueAfterMs: Math.max(requeueAfterMs, 1) };
}

/** Whether the write was done, or its object is gone and nothing is left to do. */
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
    const { metadata } = await client.create(type, object as DeepReadonly<KubernetesObject>, { signal });
    tell(context, "create", { kind: type.kind, name: metadata.name ?? "" }, owner);
    return true;
  } catch (error) {
    if (write.mayExist && isAlreadyExists(error)) return true;
    // What is to be made would go with its namespace at once.
    if (isNamespaceTerminating(error) || signal.aborted) return false;
    tell(context, "create", { kind: type.kind, name: object.metadata.name ?? "" }, owner, error);
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
    // Gone, or another one under its name: this one need not be deleted any more.
    if (isNotFound(error) || isConflict(error)) return true;
    if (!signal.aborted) tell(context, "delete", { kind: type.kind, name }, owner, error);
    throw error;
  }
  tell(context, "delete", { kind: type.kind, name }, owner);
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

/** Tells the owner of a part what was done to it, or why not. */
function tell(
  { events }: ReconcileContext,
  verb: PartWrite["verb"],
  part: PartWrite["part"],
  owner: Seen | undefined,
  error?: unknown,
): void {
  if (owner === undefined) return;
  const problem = error === undefined ? {} : { problem: error instanceof Error ? error.message : String(error) };
  const words = partEvent({ verb, part, owner: { kind: owner.kind ?? "", name: owner.metadata.name ?? "" }, ...problem });
  events.event(owner, { type: error === undefined ? "Normal" : "Warning", ...words });
}

function keyOf({ metadata: { namespace, name = "" } }: DeepReadonly<KubernetesObject>): ObjectKey {
  return { namespace, name };
}

function isNamespaceTerminating(error: unknown): boolean {
  if (isNotFound(error)) return error.status.details?.kind === "namespaces";
  return (
    isStatusError(error, "Forbidden") &&
    (error.status.details?.causes?.some(({ reason }) => reason === "NamespaceTerminating") ?? false)
  );
}
