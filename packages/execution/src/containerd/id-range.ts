import { createHash } from "node:crypto";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { StartFailure } from "../process/launcher.ts";
import type { ContainerdApi } from "./containerd-api.ts";

/*
 * A container with a private user has a user namespace whose ids 0 to 65535 are a range of host ids that no other container has. The range
 * is a label of the container, so it is free again when the container is deleted.
 */

/** Label of a container: the first host id of its range. */
export const idRangeLabel = "keelson.dev/first-id";

/** Number of ids in a range: those that images use, including 65534 (nobody). */
export const idRangeSize = 65_536;

/** First id of the first range: 2^31, above the private ids of `bubblewrap` and the ranges of /etc/subuid. */
const firstRange = 2 ** 31;

/** Number of ranges below 2^32 - 65536; the last id is invalid. */
const rangeCount = 32_767;

/** The first host id of a free range. Candidates start at a position that derives from the program, so concurrent starts differ. */
export function freeRange({ tag }: Pick<ProgramFolder, "tag">, used: ReadonlySet<number>): number {
  const start = createHash("sha256").update(tag).digest().readUIntBE(0, 6);
  for (let index = 0; index < rangeCount; index += 1) {
    const firstId = firstRange + ((start + index) % rangeCount) * idRangeSize;
    if (!used.has(firstId)) return firstId;
  }
  throw new StartFailure(`could not start the program: all ${rangeCount} ranges of user ids are in use`, 126);
}

/** The first host ids of the ranges of all containers in the namespace. */
export async function usedRanges({ containers }: ContainerdApi): Promise<ReadonlySet<number>> {
  const { containers: all } = await containers.list({ filters: [`labels."${idRangeLabel}"`] });
  return new Set(all.map(({ labels }) => Number(labels[idRangeLabel])));
}
