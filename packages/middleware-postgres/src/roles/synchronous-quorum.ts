const numbered = /^\s*(?:(?:first|any)\s+)?(\d+)\s*\(/i;

/** How many replicas confirm a commit, by a value of `synchronous_standby_names`. 0: none. Pure. */
export function confirmationsOf(names: string): number {
  if (names.trim() === "") return 0;
  const [, count] = numbered.exec(names) ?? [];
  return count === undefined ? 1 : Number(count);
}

/**
 * How many of the replicas that a primary had must be known, so that at least one of them has each commit that was acknowledged. Lists of names
 * may exclude replicas; any of them is assumed to confirm. At least 1, the replica itself. Pure.
 */
export function neededReplicas(names: string, replicas: number): number {
  const count = confirmationsOf(names);
  return count === 0 ? 1 : Math.max(1, replicas - count + 1);
}

/**
 * The values of `synchronous_standby_names` that may have been in force on the primary: the one of this server, and the one that the primary
 * had when it was last asked. A change reaches replicas first.
 */
export class SynchronousNames {
  #learned: string | undefined;

  /** Records what the primary has. */
  learn(names: string): void {
    this.#learned = names;
  }

  /** The value that requires the most replicas. */
  strictest(own: string, replicas: number): string {
    const learned = this.#learned ?? own;
    return neededReplicas(learned, replicas) > neededReplicas(own, replicas) ? learned : own;
  }
}
