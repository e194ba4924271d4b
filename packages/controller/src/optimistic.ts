import { isConflict } from "@keelson/api-machinery";

/**
 * Awaits a write that carries a resourceVersion. False where the object has moved on: the watch brings what it is now, and
 * with it the next reconcile, so there is nothing to do about it.
 */
export async function unlessMovedOn(write: Promise<unknown>): Promise<boolean> {
  try {
    await write;
    return true;
  } catch (error) {
    if (isConflict(error)) return false;
    throw error;
  }
}
