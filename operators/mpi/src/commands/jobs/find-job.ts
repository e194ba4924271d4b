import { ignoreNotFound, isStatusError, type ObjectKey } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { UsageError } from "@keelson/operator/flags";
import type { JobView } from "../../controllers/job-view.ts";
import { type JobKind, jobKinds } from "./job-kinds.ts";

/**
 * Finds the job that an argument names: `NAME`, or `KIND/NAME` as kubectl accepts it (`rhinojob/pi`, `mpijobs.kubeflow.org/pi`). Returns
 * undefined if there is none. Without a kind, users need permission to read only the kind of their job.
 *
 * **Errors**: {@link UsageError} if the kind is unknown, or if jobs of both kinds have the name.
 */
export async function findJob(
  client: Client,
  { namespace, name: argument }: ObjectKey,
  signal: AbortSignal,
): Promise<JobView | undefined> {
  const { kind, name } = parseJobName(argument);
  const key = { namespace, name };
  if (kind !== undefined) return ignoreNotFound(kind.get(client, key, signal));
  const results = await Promise.allSettled(jobKinds.map((each) => ignoreNotFound(each.get(client, key, signal))));
  const found = results.flatMap((each) => (each.status === "fulfilled" && each.value !== undefined ? [each.value] : []));
  const [job, other] = found;
  if (other !== undefined) {
    const names = found.map((each) => `${each.kind.toLowerCase()}/${name}`);
    throw new UsageError(`jobs of two kinds have the name ${name}; name one of them: ${names.join(" or ")}`);
  }
  for (const each of results) if (each.status === "rejected" && !isUnreadable(each.reason)) throw each.reason;
  if (job !== undefined) return job;
  // No kind that the user may read has it.
  const [first] = results;
  if (first?.status === "rejected") throw first.reason;
  return undefined;
}

/** The message about a job that does not exist. */
export function jobNotFound({ namespace = "default", name }: ObjectKey): string {
  return `job ${name} not found in namespace ${namespace}; list jobs: keelson mpi list -n ${namespace}\n`;
}

function isUnreadable(error: unknown): boolean {
  return isStatusError(error, "Forbidden");
}

function parseJobName(argument: string): { readonly kind: JobKind | undefined; readonly name: string } {
  const slash = argument.indexOf("/");
  if (slash < 0) return { kind: undefined, name: argument };
  const word = argument.slice(0, slash).toLowerCase();
  const kind = jobKinds.find(({ type: { kind: single, plural, group } }) =>
    [single.toLowerCase(), plural].some((each) => word === each || word === `${each}.${group}`),
  );
  if (kind === undefined)
    throw new UsageError(`${JSON.stringify(word)} in ${argument} is not a kind of job: must be rhinojob or mpijob`);
  return { kind, name: argument.slice(slash + 1) };
}
