import type { DeepReadonly } from "@keelson/api-machinery";
import type { TaskGroup } from "../api/taskgroup.ts";
import type { JobRollout } from "../api/update-policy.ts";
import type { JobRevision, JobSpec } from "./job-revision.ts";
import { describeProgress } from "./rollout-message.ts";
import { mergeUpdatePolicies } from "./update-policy.ts";

/** Input of {@link decideJobRollout}. */
export interface JobRolloutObservation {
  readonly spec: DeepReadonly<JobSpec>;
  /** At least the current one, oldest first. */
  readonly revisions: readonly JobRevision[];
  readonly groups: readonly DeepReadonly<TaskGroup>[];
  /** Whether the Job's tasks were created before Jobs had revisions, from another spec. */
  readonly hasUnknownHistory: boolean;
  /** Highest revision that the user promoted. */
  readonly promoted: number;
  /** The stored status. */
  readonly before: DeepReadonly<JobRollout> | undefined;
}

/** Something that happened to a rollout. */
export interface RolloutEvent {
  readonly type: "Normal" | "Warning";
  readonly reason:
    | "RolloutStarted"
    | "RolloutWaiting"
    | "RolloutCompleted"
    | "RolloutFailed"
    | "RolloutReverting"
    | "RolloutReverted";
  readonly note: string;
}

/** What the Job's TaskGroups should be, and the status to store. */
export interface JobRolloutDecision {
  /** Revision of the TaskGroups. */
  readonly target: JobRevision;
  /** The stable revision, if it exists. */
  readonly stable: JobRevision | undefined;
  readonly isRevert: boolean;
  readonly isPromoted: boolean;
  /** Whether all groups have the revision. Groups that the revision does not have can be deleted. */
  readonly isDone: boolean;
  /** Whether the status must be stored before the TaskGroups change. */
  readonly statusFirst: boolean;
  readonly status: JobRollout;
  readonly events: readonly RolloutEvent[];
}

/**
 * Decides which revision of a Job runs.
 *
 * **Guarantees**: a failure is stored before a TaskGroup changes for it, so a crash does not repeat a failed rollout. A revert ends with
 * the stable revision. A new spec supersedes the rollout in progress.
 */
export function decideJobRollout(observed: JobRolloutObservation): JobRolloutDecision | undefined {
  const { revisions, before, groups, spec, hasUnknownHistory } = observed;
  const latest = revisions.at(-1);
  if (latest === undefined) return undefined;
  const isNew = before === undefined || before.latestRevision !== latest.number;
  const stable = before?.stableRevision ?? (hasUnknownHistory ? latest.number - 1 : latest.number);
  const failed = isNew ? undefined : before.failedRevision;
  const wasReverting = !isNew && (before.phase === "reverting" || before.phase === "reverted");
  const stableRevision = revisions.find(({ number }) => number === stable);
  const target = wasReverting && stableRevision !== undefined ? stableRevision : latest;
  const isRevert = target !== latest;
  const own = groups.filter(({ spec: group }) => target.spec.taskGroups.some(({ name }) => name === group.groupName));
  const current = own.flatMap(({ spec: { groupName }, status }) =>
    status?.rollout !== undefined && status.rollout.revision === target.groupRevisions[groupName]
      ? [{ name: groupName, rollout: status.rollout }]
      : [],
  );
  const failure = isRevert ? undefined : current.find(({ rollout }) => rollout.phase === "failed");
  const isDone =
    current.length === target.spec.taskGroups.length && current.every(({ rollout }) => rollout.phase === "completed");
  const counts = countsOf(current.map(({ rollout }) => rollout));
  const previous = isDone && !isRevert && stable !== latest.number ? stable : before?.previousStableRevision;
  const common = {
    revision: target.number,
    latestRevision: latest.number,
    ...(previous === undefined ? {} : { previousStableRevision: previous }),
    ...counts,
  };
  const waiting = current.find(({ rollout }) => rollout.phase === "waiting")?.rollout;
  const decided = { target, stable: stableRevision, isRevert, isDone, isPromoted: isPromotedBy(observed, latest, current) };
  if (failure !== undefined) {
    const canRevert =
      policyOf(spec, failure.name).autoRevert === true && stable !== latest.number && stableRevision !== undefined;
    const { status, events } = failureOf({ ...common, stableRevision: stable }, failure, canRevert, failed === latest.number);
    return { ...decided, statusFirst: before?.phase !== status.phase, status, events };
  }
  if (isRevert) {
    const reverted = revertOf({ ...common, stableRevision: stable }, isDone, before?.phase === "reverted");
    return { ...decided, statusFirst: false, ...reverted };
  }
  const phase = isDone ? "completed" : waiting === undefined ? "progressing" : "waiting";
  const message =
    current.length === 1 ? current[0]?.rollout.message : describeProgress(counts, target.number, reasonsOf(current));
  const status: JobRollout = {
    ...common,
    stableRevision: isDone ? latest.number : stable,
    phase,
    reason: isDone ? "Completed" : (waiting?.reason ?? "Progressing"),
    message: message ?? describeProgress(counts, target.number),
  };
  return { ...decided, statusFirst: false, status, events: eventsOf(status, before, isNew) };
}

/** The status and the events of a revert. */
function revertOf(
  common: Omit<JobRollout, "phase">,
  isDone: boolean,
  wasDone: boolean,
): { readonly status: JobRollout; readonly events: readonly RolloutEvent[] } {
  const { revision, latestRevision, total = 0, updated = 0, healthy = 0, unhealthy = 0, offline = 0 } = common;
  const progress = describeProgress({ total, updated, healthy, unhealthy, offline }, revision);
  const message = `revision ${latestRevision} failed; ${progress}`;
  return {
    status: {
      ...common,
      failedRevision: latestRevision,
      phase: isDone ? "reverted" : "reverting",
      reason: isDone ? "Reverted" : "Reverting",
      message,
    },
    events: isDone && !wasDone ? [{ type: "Normal", reason: "RolloutReverted", note: message }] : [],
  };
}

/** The status and the events of a rollout that a group has failed. */
function failureOf(
  common: Omit<JobRollout, "phase">,
  { name, rollout }: CurrentGroup,
  canRevert: boolean,
  isKnown: boolean,
): { readonly status: JobRollout; readonly events: readonly RolloutEvent[] } {
  const { latestRevision, stableRevision } = common;
  const why = `revision ${latestRevision} failed: group ${name}: ${rollout.message ?? ""}`;
  const reverting = `reverting to revision ${stableRevision}`;
  const status: JobRollout = {
    ...common,
    failedRevision: latestRevision,
    phase: canRevert ? "reverting" : "failed",
    reason: rollout.reason ?? "Failed",
    message: canRevert ? `${why}; ${reverting}` : why,
  };
  return {
    status,
    events: [
      ...(isKnown ? [] : [{ type: "Warning", reason: "RolloutFailed", note: why } as const]),
      ...(canRevert ? [{ type: "Warning", reason: "RolloutReverting", note: reverting } as const] : []),
    ],
  };
}

type CurrentGroup = {
  readonly name: string;
  readonly rollout: DeepReadonly<NonNullable<NonNullable<TaskGroup["status"]>["rollout"]>>;
};

function policyOf(spec: DeepReadonly<JobSpec>, group: string) {
  const template = spec.taskGroups.find(({ name }) => name === group);
  return mergeUpdatePolicies([template?.update, spec.update]);
}

/** Canaries of all groups are promoted together: by the user, or when all of them are healthy. */
function isPromotedBy(
  { promoted, groups, spec }: JobRolloutObservation,
  latest: JobRevision,
  current: readonly CurrentGroup[],
): boolean {
  if (promoted >= latest.number) return true;
  if (groups.some(({ spec: group }) => group.revision === latest.number && group.rollout?.isPromoted === true)) return true;
  const withCanaries = spec.taskGroups.filter(
    ({ name }) => (policyOf(spec, name).canary ?? 0) > 0 && latest.groupRevisions[name] === latest.number,
  );
  return (
    withCanaries.length > 0 &&
    withCanaries.every(({ name }) => {
      const rollout = current.find((each) => each.name === name)?.rollout;
      const { autoPromote, canary = 0 } = policyOf(spec, name);
      // A canary whose robot is offline is neither healthy nor unhealthy.
      const wanted = Math.min(canary, rollout?.total ?? canary);
      const areHealthy =
        rollout?.reason === "AwaitingPromotion" && (rollout.unhealthy ?? 0) === 0 && (rollout.healthy ?? 0) >= wanted;
      return autoPromote === true && (areHealthy || rollout?.phase === "completed");
    })
  );
}

function reasonsOf(current: readonly CurrentGroup[]): string | undefined {
  const reasons = current.flatMap(({ name, rollout }) =>
    rollout.phase === "waiting" ? [`group ${name}: ${rollout.message?.split("; ").at(-1) ?? ""}`] : [],
  );
  return reasons.length === 0 ? undefined : reasons.join(", ");
}

function countsOf(rollouts: readonly CurrentGroup["rollout"][]) {
  const sum = (field: "total" | "updated" | "healthy" | "unhealthy" | "offline"): number =>
    rollouts.reduce((total, rollout) => total + (rollout[field] ?? 0), 0);
  return {
    total: sum("total"),
    updated: sum("updated"),
    healthy: sum("healthy"),
    unhealthy: sum("unhealthy"),
    offline: sum("offline"),
  };
}

function eventsOf(
  { phase, reason, message = "", revision }: JobRollout,
  before: DeepReadonly<JobRollout> | undefined,
  isNew: boolean,
): RolloutEvent[] {
  // The first revision is not a rollout.
  if (before === undefined) return [];
  if (isNew) return [{ type: "Normal", reason: "RolloutStarted", note: `updating tasks to revision ${revision}` }];
  if (phase === "completed" && before.stableRevision !== revision) {
    return [{ type: "Normal", reason: "RolloutCompleted", note: message }];
  }
  if (phase === "waiting" && before.reason !== reason) return [{ type: "Normal", reason: "RolloutWaiting", note: message }];
  return [];
}
