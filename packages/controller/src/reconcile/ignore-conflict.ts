import { isConflict, isNotFound } from "@keelson/api-machinery";

/**
 * Awaits a write that carries a resourceVersion. Returns `undefined` if the object has changed or was deleted: the watch delivers the change,
 * which leads to another reconcile, so there is nothing to do.
 */
export async function ignoreConflict<T>(write: Promise<T>): Promise<T | undefined> {
  try {
    return await write;
  } catch (error) {
    if (isConflict(error) || isNotFound(error)) return undefined;
    throw error;
  }
}
