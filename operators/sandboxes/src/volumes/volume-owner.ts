import type { VolumeMounts } from "./volume-image.ts";

/** User and group ids of a sandbox on the host. */
export interface IdRange {
  readonly first: number;
  readonly size: number;
}

/** Number of different owners of a volume's files that are kept apart. Beyond that, all files belong to the sandbox's root. */
const maxOwners = 64;

/** An owner and a group, as chown(1) takes them. */
const pair = (uid: number, gid: number): string => `${uid}:${gid}`;

/** The id in the range of the next sandbox for an id of an earlier one. An id that is in no range becomes the first. */
export function shiftId(id: number, from: readonly IdRange[], to: IdRange): number {
  const range = [to, ...from].find(({ first, size }) => id >= first && id < first + size);
  const offset = range === undefined ? 0 : id - range.first;
  return to.first + (offset < to.size ? offset : 0);
}

/**
 * Gives the files below a directory to the sandbox with the ids `to`. Files of earlier sandboxes, with ids in `from`, keep their owner within
 * the range. The tools do not follow links and open each directory relative to its parent, so neither links nor depth lead astray. No sandbox
 * may use the directory in the meantime. Repeating an interrupted call completes it.
 */
export async function chownFiles(
  { run }: Pick<VolumeMounts, "run">,
  folder: string,
  from: readonly IdRange[],
  to: IdRange,
): Promise<void> {
  const listing = await run("find", [folder, "-xdev", "-printf", "%U %G\n"], "list the files of the volume");
  const owners = [...new Set(listing.split("\n"))].filter((line) => line !== "");
  if (owners.length > maxOwners) {
    await run("chown", ["-hR", "-P", pair(to.first, to.first), folder], "change the owner of the volume");
    return;
  }
  for (const owner of owners) {
    const [uid = 0, gid = 0] = owner.split(" ").map(Number);
    const next = pair(shiftId(uid, from, to), shiftId(gid, from, to));
    if (next === pair(uid, gid)) continue;
    await run("chown", ["-hR", "-P", `--from=${pair(uid, gid)}`, next, folder], "change the owner of the volume");
  }
}
