import { type DeepReadonly, draft, isNotFound } from "@keelson/api-machinery";
import { ControllerRevision } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { countFlag } from "@keelson/operator/flags";
import { isLongRunning, Job } from "../api/job.ts";
import { labels, promotedRevisionAnnotation } from "../api/names.ts";
import { changedPaths, type JobRevision, revisedPart, revisionsOf } from "../rollout/job-revision.ts";
import { labelValue } from "../work/child-name.ts";
import { namespaceFlag } from "./flags.ts";

const toFlag = countFlag({
  name: "to",
  value: "REVISION",
  description: "revision to return to (default: the last one whose rollout completed before the current one)",
  min: 1,
});

/** `keelson robots history JOB`. */
export const historyCommand: CommandDefinition = {
  name: "history",
  description: "list the revisions of a job and what changed in each",
  args: ["JOB"],
  flags: [namespaceFlag, outputFlag],
  run: (context) =>
    withJob(context, async (job, client) => {
      const revisions = await listRevisions(job, client, context.signal);
      context.stdout.write(formatResult(context, revisions, () => describeHistory(job, revisions)));
      return 0;
    }),
};

/** `keelson robots rollback JOB`. */
export const rollbackCommand: CommandDefinition = {
  name: "rollback",
  description: "return a job to an earlier revision, as a new rollout",
  args: ["JOB"],
  flags: [toFlag, namespaceFlag],
  run: (context) => withJob(context, (job, client) => rollBack(job, client, context)),
};

/** `keelson robots promote JOB`. */
export const promoteCommand: CommandDefinition = {
  name: "promote",
  description: "promote the canaries of a job and continue the rollout with the other tasks",
  args: ["JOB"],
  flags: [namespaceFlag],
  run: (context) =>
    withJob(context, async (job, client) => {
      const { latestRevision, phase } = job.status?.rollout ?? {};
      if (latestRevision === undefined || !canPromote(job)) {
        const why = phase === undefined ? "has no rollout" : `has no rollout to promote: the last one is ${phase}`;
        context.stderr.write(`job ${nameOf(job)} ${why}; see keelson robots history ${nameOf(job)}\n`);
        return 1;
      }
      const annotations = { [promotedRevisionAnnotation]: String(latestRevision) };
      await patch(job, client, { metadata: { annotations } }, context.signal);
      context.stdout.write(`job ${nameOf(job)}: revision ${latestRevision} promoted\n`);
      return 0;
    }),
};

/** `keelson robots pause JOB`. */
export const pauseCommand = pauseDefinition("pause", "pause the rollout of a job: no more tasks are updated", true);

/** `keelson robots resume JOB`. */
export const resumeCommand = pauseDefinition("resume", "resume the rollout of a job", false);

function pauseDefinition(name: "pause" | "resume", description: string, paused: boolean): CommandDefinition {
  return {
    name,
    description,
    args: ["JOB"],
    flags: [namespaceFlag],
    run: (context) =>
      withJob(context, async (job, client) => {
        await patch(job, client, { spec: { paused: paused ? true : null } }, context.signal);
        context.stdout.write(`job ${nameOf(job)} ${name}d\n`);
        return 0;
      }),
  };
}

/** Whether a rollout of the Job is in progress. One that failed is not continued by a promotion. */
export function canPromote({ status }: DeepReadonly<Job>): boolean {
  const phase = status?.rollout?.phase;
  return phase === "progressing" || phase === "waiting";
}

const nameOf = ({ metadata }: DeepReadonly<Job>): string => metadata.name ?? "";

/** Runs a command on a Job of type service or system. */
async function withJob(
  { args, flags, stderr, signal, client: connect }: CommandContext,
  run: (job: DeepReadonly<Job>, client: Client) => Promise<number>,
): Promise<number> {
  const [name = ""] = args;
  const namespace = namespaceFlag.read(flags);
  const client = await connect();
  try {
    const job = await client.get(Job, { namespace, name }, { signal });
    if (isLongRunning(job.spec.type)) return await run(job, client);
    stderr.write(`job ${name} is of type ${job.spec.type ?? "batch"}; only jobs of type service or system are rolled out\n`);
    return 1;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    stderr.write(`job ${name} not found in namespace ${namespace}; list jobs: kubectl get rjob -n ${namespace}\n`);
    return 1;
  } finally {
    await client.close();
  }
}

/** The revisions of a Job, oldest first. */
export async function listRevisions(
  job: DeepReadonly<Job>,
  client: Client,
  signal: AbortSignal,
): Promise<readonly JobRevision[]> {
  const { namespace, uid } = job.metadata;
  const labelSelector = `${labels.job}=${labelValue(nameOf(job))}`;
  const { items } = await client.list(ControllerRevision, { namespace, labelSelector, signal });
  return revisionsOf(items.filter(({ metadata }) => metadata.ownerReferences?.some((owner) => owner.uid === uid)));
}

async function patch(job: DeepReadonly<Job>, client: Client, body: object, signal: AbortSignal): Promise<void> {
  const { namespace } = job.metadata;
  await client.patch(Job, { namespace, name: nameOf(job) }, { type: "merge", body }, { signal });
}

async function rollBack(
  job: DeepReadonly<Job>,
  client: Client,
  { flags, stdout, stderr, signal }: CommandContext,
): Promise<number> {
  const revisions = await listRevisions(job, client, signal);
  const target = rollbackTarget(job, revisions, toFlag.read(flags));
  if (typeof target === "string") {
    stderr.write(`cannot roll back job ${nameOf(job)}: ${target}; see keelson robots history ${nameOf(job)}\n`);
    return 1;
  }
  const { namespace } = job.metadata;
  const operations = rollbackOperations(job, target);
  await client.patch(Job, { namespace, name: nameOf(job) }, { type: "json", operations }, { signal });
  stdout.write(`job ${nameOf(job)}: the spec is that of revision ${target.number} again\n`);
  return 0;
}

/** The revision to return to, or why there is none. */
export function rollbackTarget(
  job: DeepReadonly<Job>,
  revisions: readonly JobRevision[],
  to: number | undefined,
): JobRevision | string {
  const { latestRevision = revisions.at(-1)?.number ?? 0, stableRevision, previousStableRevision } = job.status?.rollout ?? {};
  if (to === latestRevision) return `revision ${to} is the current one`;
  if (to !== undefined) return revisions.find(({ number }) => number === to) ?? `revision ${to} not found`;
  const wanted = stableRevision === latestRevision ? previousStableRevision : stableRevision;
  return revisions.find(({ number }) => number === wanted) ?? "no earlier revision has completed; name one with --to";
}

/** The patch that restores a revision, unless the spec has changed since the Job was read. Its status changes all the time. */
export function rollbackOperations(job: DeepReadonly<Job>, target: JobRevision) {
  return [
    { op: "test" as const, path: "/metadata/generation", value: job.metadata.generation ?? 0 },
    { op: "replace" as const, path: "/spec", value: restoredSpec(job, target) },
  ];
}

/** The spec of a revision with the counts and the update policies of the current spec. */
export function restoredSpec({ spec }: DeepReadonly<Job>, target: JobRevision): Job["spec"] {
  const { update: _update, paused: _paused, revisionHistoryLimit: _limit, ...past } = target.spec;
  const { update, paused, revisionHistoryLimit } = spec;
  const taskGroups = past.taskGroups.map((group) => {
    const present = spec.taskGroups.find(({ name }) => name === group.name);
    const { update: pastUpdate, ...rest } = group;
    const kept = present === undefined ? pastUpdate : present.update;
    return { ...rest, count: present?.count ?? group.count, ...(kept === undefined ? {} : { update: kept }) };
  });
  return draft({
    ...past,
    taskGroups,
    ...(update === undefined ? {} : { update }),
    ...(paused === undefined ? {} : { paused }),
    ...(revisionHistoryLimit === undefined ? {} : { revisionHistoryLimit }),
  });
}

/** A table of revisions, the newest first. */
export function describeHistory(job: DeepReadonly<Job>, revisions: readonly JobRevision[]): string {
  const { revision, latestRevision, stableRevision, failedRevision, phase, message } = job.status?.rollout ?? {};
  const rows = revisions.map(({ number, createdAt, spec }, index) => {
    const before = revisions[index - 1];
    const states = [
      ...(number === revision ? ["current"] : []),
      ...(number === latestRevision && phase !== undefined && number === revision ? [phase] : []),
      ...(number === stableRevision && phase !== "completed" ? ["stable"] : []),
      ...(number === failedRevision && number !== revision ? ["failed"] : []),
    ];
    const changes = before === undefined ? [] : changedPaths(revisedPart(before.spec), revisedPart(spec));
    return [String(number), states.join(",") || "-", createdAt ?? "-", changes.join(", ") || "-"];
  });
  const table = renderTable([["REVISION", "STATE", "CREATED", "CHANGED"], ...rows.reverse()]);
  return message === undefined ? table : `${table}\n${message}\n`;
}
