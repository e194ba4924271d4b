import { chmodSync, statSync } from "node:fs";
import { openBeneath, type OpenedBeneath, PathError } from "@keelson/execution/files";
import { configError } from "../container/container-error.ts";

const modes = { directoryMode: 0o755, fileMode: 0o644 };

/**
 * Opens a subpath of a volume without leaving the volume, and creates it as a directory if it is missing.
 *
 * @throws ContainerError that names the subpath, if it leads out of the volume or is neither a file nor a directory.
 */
export function openSubPath(volume: string, subPath: string): OpenedBeneath {
  try {
    const opened = open(volume, subPath);
    if (opened.stats.isDirectory() || opened.stats.isFile()) return opened;
    opened.close();
  } catch (error) {
    if (!(error instanceof PathError)) throw error;
    throw configError(`volumeMounts: subPath ${JSON.stringify(subPath)} must stay within the volume: ${error.message}`);
  }
  throw configError(`volumeMounts: subPath ${JSON.stringify(subPath)} must be a file or a directory`);
}

function open(volume: string, subPath: string): OpenedBeneath {
  try {
    return openBeneath(volume, subPath);
  } catch (error) {
    if (!(error instanceof PathError) || error.code !== "NotFound") throw error;
    const created = openBeneath(volume, subPath, { kind: "directory", create: modes });
    // Like the volume itself, it is for every user of the volume.
    chmodSync(created.path, statSync(volume).mode & 0o777);
    return created;
  }
}
