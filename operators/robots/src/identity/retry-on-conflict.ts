import { isAlreadyExists, isConflict } from "@keelson/api-machinery";

const maxConflicts = 8;

/** Runs `attempt` again when another writer has changed or created the object in the meantime. **Errors**: as those of `attempt`. */
export async function retryOnConflict<T>(attempt: () => Promise<T>): Promise<T> {
  for (let conflicts = 0; ; conflicts++) {
    try {
      return await attempt();
    } catch (error) {
      if (conflicts >= maxConflicts || !(isConflict(error) || isAlreadyExists(error))) throw error;
    }
  }
}
