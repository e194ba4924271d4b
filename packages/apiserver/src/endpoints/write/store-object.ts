import { deepFreeze, type KubernetesObject } from "@keelson/api-machinery";
import type { WriteResult } from "../../storage/store.ts";
import type { Call } from "../call.ts";
import { noteWritten } from "../object/serve-object.ts";
import { requireWithinLimits } from "../object/object-limits.ts";
import { isLarge, pauseIfLarge } from "../pause.ts";
import { toStorageVersion } from "./field-context.ts";

/**
 * Writes a validated object in its storage version, if the revision of its key is `expected`. A large object is frozen in turns of its
 * own, as the store would freeze it in one.
 *
 * **Errors**: `RequestEntityTooLarge`.
 */
export async function storeObject(call: Call, key: string, expected: number, object: KubernetesObject): Promise<WriteResult> {
  const storing = toStorageVersion(call, object);
  const stored = storing instanceof Promise ? await storing : storing;
  if (isLarge(call.load.bytes)) await freezeInTurns(call, stored);
  const result = await call.store.write(key, expected, stored);
  if (result.ok) noteWritten(call, result.stored);
  return result;
}

async function freezeInTurns(call: Call, stored: KubernetesObject): Promise<void> {
  await pauseIfLarge(call);
  requireWithinLimits(stored);
  for (const part of [...Object.values(stored), ...Object.values(stored.metadata)]) {
    if (typeof part !== "object" || part === stored.metadata) continue;
    await pauseIfLarge(call);
    deepFreeze(part);
  }
  await pauseIfLarge(call);
}
