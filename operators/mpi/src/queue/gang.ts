import { addAmounts, type Amounts } from "@keelson/api-machinery/scheduling";

/** Pods of one kind, as far as their fit matters. */
export interface PodShape {
  /** Requests in nano units, including one of `pods`. */
  readonly requests: Amounts;
  /** Names of the nodes that the Pods may run on, regardless of load. */
  readonly nodes: ReadonlySet<string>;
}

/** The Pods of a job, which are admitted together or not at all. */
export interface Gang {
  /** Undefined if the launcher is already placed, or has ended. */
  readonly launcher: PodShape | undefined;
  readonly worker: PodShape;
  readonly workers: number;
}

/** Total requests of a gang. */
export function totalOf({ launcher, worker, workers }: Gang): Amounts {
  const total = new Map<string, bigint>();
  if (launcher !== undefined) addAmounts(total, launcher.requests);
  for (const [resource, amount] of worker.requests) total.set(resource, (total.get(resource) ?? 0n) + amount * BigInt(workers));
  return total;
}
