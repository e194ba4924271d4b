import { isConflict, isNotFound } from "@keelson/api-machinery";

/**
 * Awaits a write that carries a resourceVersion. Undefined where the object has moved on or is gone: the watch brings what it is
 * now, and with it the next reconcile, so there is nothing to do about it.
 */
export async function ignoreConflict<T>(write: Promise<T>): Promise<T | undefined> {
  try {
    return await write;
  } catch (error) {
    if (isConflict(error) || isNotFound(error)) return undefined;
    throw error;
  }
}
