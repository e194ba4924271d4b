import {
  type Condition,
  type DeepReadonly,
  draft,
  findCondition,
  hasFinalizer,
  isConditionTrue,
  jsonEquals,
  setCondition,
} from "@keelson/api-machinery";
import { formatTime, parseDuration, parseTime } from "@keelson/api-machinery/time";
import { type CronSchedule, parseCronSchedule } from "@keelson/operator/cron";
import { Backup } from "../../api/backup.ts";
import { BackupSchedule, type BackupScheduleStatus } from "../../api/backup-schedule.ts";
import { backupFinalizer } from "../../api/backup-parts.ts";
import { labels } from "../../api/names.ts";
import { deletePods, isFinished } from "../backup/backup-decision.ts";
import type { Decision, Effect } from "../effect.ts";
import { decideLog, type LogObservation, setArchive } from "./log-decision.ts";

/** Failed backups that are kept for their messages. */
const maxFailed = 3;

/** Inputs of a decision about a BackupSchedule. */
export interface ScheduleObservation {
  readonly schedule: DeepReadonly<BackupSchedule>;
  /** All Backups of its namespace. */
  readonly backups: readonly DeepReadonly<Backup>[];
  /** Names of the Backups that unfinished Restores use. */
  readonly restored: ReadonlySet<string>;
  /** What the archive of the log depends on; undefined if there is none. */
  readonly log?: LogObservation | undefined;
  readonly now: number;
}

/**
 * Decides about a BackupSchedule. Pure. The scheduled time is part of a Backup's name, so that a controller that crashes before it has
 * recorded the time creates the same Backup again, and never two.
 */
export function decideSchedule({ schedule, backups, restored, log, now }: ScheduleObservation): Decision {
  const { metadata, spec } = schedule;
  if (metadata.deletionTimestamp !== undefined) return decideDeletion(schedule, log);
  // Without it the program would keep its log forever after the deletion.
  if (spec.log === true && !hasFinalizer(schedule, backupFinalizer))
    return { effects: [{ kind: "add-finalizer", type: BackupSchedule, object: schedule, finalizer: backupFinalizer }] };
  const status = draft(schedule.status ?? {}) as BackupScheduleStatus;
  status.observedGeneration = metadata.generation ?? 0;
  const present = backups.filter((backup) => isCreatedBy(schedule, backup) && backup.metadata.deletionTimestamp === undefined);
  summarize(status, present);
  const cron = parseCronSchedule(spec.schedule, spec.timeZone ?? "UTC");
  const problem = "problem" in cron ? `spec.schedule: ${cron.problem}` : undefined;
  const condition = {
    type: "Ready",
    status: problem === undefined,
    reason: problem !== undefined ? "InvalidSchedule" : spec.suspend ? "Suspended" : "Scheduled",
    message: problem ?? "",
    observedGeneration: metadata.generation ?? 0,
  };
  status.conditions = draft(setCondition(status.conditions, condition, now)) as Condition[];
  const archiving = log === undefined ? [] : decideLog(schedule, log, backups, status, now);
  const effects: Effect[] = expired(schedule, present, now)
    .filter(({ metadata: { name = "" } }) => !restored.has(name))
    .map((backup) => deletion(backup));
  if ("problem" in cron) {
    status.message = problem ?? "";
    delete status.nextScheduleTime;
    return { effects: [...effects, ...statusEffect(schedule, status), ...archiving] };
  }
  const next = cron.next(now);
  if (next === undefined || spec.suspend) delete status.nextScheduleTime;
  else status.nextScheduleTime = formatTime(next);
  const created = spec.suspend ? [] : start(schedule, cron, { present, all: backups }, status, now);
  // The Backup is created before the time is recorded: a crash in between creates it again, under the same name.
  return {
    effects: [...effects, ...created, ...statusEffect(schedule, status), ...archiving],
    ...requeue(schedule, present, next, now),
  };
}

/** Ends the archive of the log before the object is gone. */
function decideDeletion(schedule: DeepReadonly<BackupSchedule>, log: LogObservation | undefined): Decision {
  if (!hasFinalizer(schedule, backupFinalizer) || log === undefined) return { effects: [] };
  const { primary, hasGroup, pods, other } = log;
  const effects = [...deletePods(pods, undefined)];
  const isArchived = other === undefined && (primary === undefined ? hasGroup : primary.role.log?.isArchived === true);
  if (!isArchived)
    effects.push({ kind: "remove-finalizer", type: BackupSchedule, object: schedule, finalizer: backupFinalizer });
  else if (primary !== undefined) effects.push(setArchive(primary.ip, false, schedule));
  return { effects, ...(isArchived ? { requeueAfterMs: logCheckMs } : {}) };
}

function statusEffect(schedule: DeepReadonly<BackupSchedule>, status: BackupScheduleStatus): Effect[] {
  if (jsonEquals(status, schedule.status ?? {})) return [];
  return [{ kind: "status", type: BackupSchedule, object: schedule, status }];
}

const deletion = ({ metadata: { name = "", namespace, uid = "" } }: DeepReadonly<Backup>): Effect => ({
  kind: "delete",
  type: Backup,
  key: { namespace, name },
  uid,
});

/** Complete Backups, the newest first. */
function completed(backups: readonly DeepReadonly<Backup>[]): readonly DeepReadonly<Backup>[] {
  return backups.filter(({ status }) => status?.phase === "Completed").sort((a, b) => completionOf(b) - completionOf(a));
}

const completionOf = ({ status }: DeepReadonly<Backup>): number => parseTime(status?.completedAt ?? "") ?? 0;

function summarize(status: BackupScheduleStatus, backups: readonly DeepReadonly<Backup>[]): void {
  const all = completed(backups);
  status.backups = all.length;
  const [newest] = all;
  if (newest?.status?.completedAt === undefined) return;
  status.lastSuccessTime = newest.status.completedAt;
  status.lastBackup = newest.metadata.name ?? "";
}

/** Whether this BackupSchedule created a Backup of its App. */
const isCreatedBy = ({ metadata, spec }: DeepReadonly<BackupSchedule>, backup: DeepReadonly<Backup>): boolean =>
  metadata.uid !== undefined &&
  backup.metadata.labels?.[labels.scheduleUid] === metadata.uid &&
  backup.spec.app.name === spec.app.name;

const hasFailedVerification = ({ status }: DeepReadonly<Backup>): boolean =>
  findCondition(status?.conditions, "Verified")?.status === "False";

/** A Backup to verify is good when its verification has succeeded. */
const isGood = (backup: DeepReadonly<Backup>): boolean =>
  backup.spec.verify === true ? isConditionTrue(backup.status?.conditions, "Verified") : !hasFailedVerification(backup);

/** Backups beyond the retention. Never the newest good one, and never one that is not finished. */
function expired(
  { spec }: DeepReadonly<BackupSchedule>,
  backups: readonly DeepReadonly<Backup>[],
  now: number,
): readonly DeepReadonly<Backup>[] {
  const { count, maxAge } = spec.retention ?? {};
  const all = completed(backups);
  const kept = all.find(isGood) ?? all.find((backup) => !hasFailedVerification(backup)) ?? all[0];
  const oldest = maxAge === undefined ? Number.NEGATIVE_INFINITY : now - parseDuration(maxAge);
  const old = all.filter(
    (backup, index) => backup !== kept && (index >= (count ?? Number.POSITIVE_INFINITY) || completionOf(backup) < oldest),
  );
  const failed = backups.filter(({ status }) => status?.phase === "Failed").sort((a, b) => completionOf(b) - completionOf(a));
  return [...old, ...failed.slice(maxFailed)];
}

/** Starts the Backup for the latest scheduled time, unless it exists or the policy forbids it. Mutates `status`. */
function start(
  schedule: DeepReadonly<BackupSchedule>,
  cron: CronSchedule,
  { present, all }: Readonly<Record<"present" | "all", readonly DeepReadonly<Backup>[]>>,
  status: BackupScheduleStatus,
  now: number,
): Effect[] {
  const { metadata, spec } = schedule;
  const last = parseTime(schedule.status?.lastScheduleTime ?? metadata.creationTimestamp ?? "") ?? now;
  const due = cron.last(now);
  if (due === undefined || due <= last) return [];
  const { startingDeadline, concurrencyPolicy = "Forbid" } = spec;
  const name = `${metadata.name}-${Math.floor(due / 60_000)}`;
  const skip = (reason: string): Effect[] => {
    status.lastScheduleTime = formatTime(due);
    status.message = `skipped the backup of ${formatTime(due)}: ${reason}`;
    return [];
  };
  const existing = all.find((backup) => backup.metadata.name === name);
  if (existing !== undefined) {
    if (!isCreatedBy(schedule, existing)) return skip(`Backup ${name} exists and does not belong to this BackupSchedule`);
    status.lastScheduleTime = formatTime(due);
    return [];
  }
  if (startingDeadline !== undefined && now - due > parseDuration(startingDeadline))
    return skip(`it is later than ${startingDeadline}`);
  const active = present.filter((backup) => !isFinished(backup.status ?? {}));
  const [running] = active;
  if (concurrencyPolicy === "Forbid" && running !== undefined) return skip(`${running.metadata.name} is still running`);
  status.lastScheduleTime = formatTime(due);
  status.message = `started ${name}`;
  return [
    ...(concurrencyPolicy === "Replace" ? active.map((backup) => deletion(backup)) : []),
    { kind: "create", type: Backup, object: backupOf(schedule, name) },
  ];
}

/** The Backup has no owner: deleting a schedule keeps its backups. */
function backupOf({ metadata, spec }: DeepReadonly<BackupSchedule>, name: string): DeepReadonly<Backup> {
  const { app, storage, encryption, maxReplicationLag, verify, deletionPolicy = "Delete" } = spec;
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Backup",
    metadata: {
      name,
      namespace: metadata.namespace ?? "",
      labels: {
        [labels.schedule]: metadata.name ?? "",
        [labels.scheduleUid]: metadata.uid ?? "",
        [labels.app]: app.name,
      },
    },
    spec: {
      ...{ app, storage, deletionPolicy },
      ...(encryption === undefined ? {} : { encryption }),
      ...(maxReplicationLag === undefined ? {} : { maxReplicationLag }),
      ...(verify === undefined ? {} : { verify }),
    },
  };
}

/** Agents report no progress of their log by themselves. */
const logCheckMs = 15_000;
/** Longest wait of one timer. */
const maxRequeueMs = 24 * 3_600_000;

/** Wakes up for the next scheduled time, and for the next backup that becomes too old. */
function requeue(
  { spec }: DeepReadonly<BackupSchedule>,
  backups: readonly DeepReadonly<Backup>[],
  next: number | undefined,
  now: number,
): { readonly requeueAfterMs?: number } {
  const { maxAge } = spec.retention ?? {};
  const times = [
    ...(spec.log === true ? [now + logCheckMs] : []),
    ...(next === undefined || spec.suspend ? [] : [next]),
    ...(maxAge === undefined ? [] : completed(backups).map((backup) => completionOf(backup) + parseDuration(maxAge) + 1)),
  ].filter((time) => time > now);
  if (times.length === 0) return {};
  return { requeueAfterMs: Math.min(Math.max(Math.min(...times) - now, 10), maxRequeueMs) };
}
