import type { UserIds } from "@keelson/execution";
import { PathError } from "@keelson/execution/files";
import { RobotsError } from "../../robots-error.ts";
import { TaskFolder } from "../files/task-folder.ts";
import type { TaskOrder } from "./task-order.ts";

/**
 * Writes the payload of a dispatched Job below the task's directory, and nothing outside it: see {@link TaskFolder}.
 *
 * **Errors**: {@link RobotsError} with the code `InvalidPayload` if the path is that of a directory, or if an earlier attempt has left something in
 * the path that is not a directory, or a link that leaves the task's directory.
 */
export function writePayload(
  dir: string,
  { path, base64 }: NonNullable<TaskOrder["payload"]>,
  owner: UserIds | undefined,
): void {
  try {
    using file = new TaskFolder(dir, owner).createFile(path, 0o600);
    file.write(Buffer.from(base64, "base64"));
  } catch (error) {
    if (!(error instanceof PathError || error instanceof RobotsError)) throw error;
    throw new RobotsError("InvalidPayload", `spec.dispatchPayload.file: ${error.message}`, { cause: error });
  }
}
