import { deepFreeze, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type { Steps } from "@keelson/api-machinery/server";
import { definitionNameOfKind, definitionOf } from "../../registry/builtin/definition.ts";
import type { WriteResult } from "../../storage/store.ts";
import type { Call } from "../call.ts";
import { noteWritten } from "../object/serve-object.ts";
import { requireWithinLimits } from "../object/object-limits.ts";
import { writeNullLists } from "../object/null-lists.ts";
import { isLarge, pauseIfLarge, takeSteps } from "../pause.ts";
import { toStorageVersion } from "./field-context.ts";

/**
 * Writes a validated object in its storage version, if the revision of its key is `expected`. A large object is frozen in turns of its
 * own, as the store would freeze it in one.
 *
 * **Errors**: `RequestEntityTooLarge`.
 */
export async function storeObject(call: Call, key: string, expected: number, object: KubernetesObject): Promise<WriteResult> {
  const writing = takeSteps(storedForm(call, object), call.load.bytes);
  if (writing instanceof Promise) await writing;
  const storing = toStorageVersion(call, object);
  const stored = storing instanceof Promise ? await storing : storing;
  if (isLarge(call.load.bytes)) await freezeInSteps(call, stored);
  const result = await call.store.write(key, expected, stored);
  if (result.ok) noteWritten(call, result.stored);
  return result;
}

/** Brings an object into the form that is stored, in place: reading it again yields the same values. */
export function* storedForm({ resource }: Pick<Call, "resource">, object: KubernetesObject): Steps<void> {
  if (resource.origin !== "builtin") return;
  const name = definitionNameOfKind(resource.group, resource.version, resource.kind);
  if (name !== undefined) yield* writeNullLists(definitionOf(name), object as unknown as JsonObject, { isStored: true });
}

async function freezeInSteps(call: Call, stored: KubernetesObject): Promise<void> {
  await pauseIfLarge(call);
  requireWithinLimits(stored);
  for (const part of [...Object.values(stored), ...Object.values(stored.metadata)]) {
    if (typeof part !== "object" || part === stored.metadata) continue;
    await pauseIfLarge(call);
    deepFreeze(part);
  }
  await pauseIfLarge(call);
}
