import { isNotFound, isStatusError } from "@keelson/api-machinery";

/**
 * Awaits a request for MPIJobs. Resolves to `undefined` if there are none for this user: the cluster may not have them, and users of RhinoJobs
 * need no permission to read them.
 */
export async function ifReadable<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isNotFound(error) || isStatusError(error, "Forbidden")) return undefined;
    throw error;
  }
}
