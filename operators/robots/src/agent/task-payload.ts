import { constants } from "node:fs";
import { lstat, mkdir, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { UserIds } from "@keelson/execution";
import { RobotsError } from "../robots-error.ts";
import type { TaskOrder } from "./task-order.ts";

/**
 * Writes the payload of a dispatched Job below the task's folder. An earlier attempt may have left links there; they are not followed.
 *
 * **Errors**: {@link RobotsError} with the code `InvalidPayload` if a part of the path is not a folder.
 */
export async function writePayload(
  dir: string,
  { path, base64 }: NonNullable<TaskOrder["payload"]>,
  owner: UserIds | undefined,
): Promise<void> {
  let folder = dir;
  for (const part of dirname(path).split("/")) {
    if (part === ".") continue;
    folder = join(folder, part);
    await mkdir(folder, { recursive: true });
    if (!(await lstat(folder)).isDirectory()) {
      throw new RobotsError("InvalidPayload", `spec.dispatchPayload.file: ${folder} is not a folder`);
    }
  }
  const file = join(dir, path);
  await rm(file, { force: true });
  const handle = await open(file, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    await handle.writeFile(Buffer.from(base64, "base64"));
    if (owner !== undefined && process.getuid?.() === 0) await handle.chown(owner.uid, owner.gid);
  } finally {
    await handle.close();
  }
}
