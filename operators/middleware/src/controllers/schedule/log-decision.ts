import { createHash } from "node:crypto";
import { type Condition, type DeepReadonly, draft, findCondition, setCondition } from "@keelson/api-machinery";
import { Pod, type PersistentVolumeClaimObject, type PodObject } from "@keelson/api-machinery/kinds";
import { formatTime, parseTime } from "@keelson/api-machinery/time";
import type { Backup } from "../../api/backup.ts";
import type { BackupSchedule, BackupScheduleStatus } from "../../api/backup-schedule.ts";
import { agentUrl, deletePods, isFinished } from "../backup/backup-decision.ts";
import { claimEffects, transferPod } from "../backup/transfer-pod.ts";
import type { Effect } from "../effect.ts";
import type { Role } from "../group/observation.ts";
import { logFolderOf } from "./find-log-folder.ts";

/** Files that wait for longer than this are reported. */
const maxDelayMs = 300_000;

/** What the archive of the log of an App depends on. */
export interface LogObservation {
  /** Whether this BackupSchedule archives the log: one of those of its App. */
  readonly isResponsible: boolean;
  /** Another BackupSchedule that archives the log of the App. */
  readonly other: string | undefined;
  /** Whether the App has a group whose log could be archived. */
  readonly hasGroup: boolean;
  /** The primary of the group, if its agent responds. */
  readonly primary: { readonly ip: string; readonly role: Role; readonly image: string; readonly hasTls: boolean } | undefined;
  /** The Pods that archive. */
  readonly pods: readonly DeepReadonly<PodObject>[];
  readonly claim: DeepReadonly<PersistentVolumeClaimObject> | undefined;
  readonly command: readonly string[];
}

/**
 * Decides about the archive of the log: one Pod that reads it from the primary, replaced when the primary changes. Mutates `status`. Two Pods
 * never run at the same time: another one is created when the last is gone.
 */
export function decideLog(
  schedule: DeepReadonly<BackupSchedule>,
  log: LogObservation,
  backups: readonly DeepReadonly<Backup>[],
  status: BackupScheduleStatus,
  now: number,
): Effect[] {
  const { primary, pods, other } = log;
  if (!log.isResponsible) {
    delete status.log;
    const problem = other === undefined ? undefined : `BackupSchedule ${other} archives the log of this App`;
    report(schedule, status, problem === undefined ? undefined : { isGood: false, reason: "Conflict", message: problem }, now);
    const isLeft = other === undefined && primary?.role.log?.isArchived === true;
    return [...deletePods(pods, undefined), ...(isLeft ? [setArchive(primary.ip, false, schedule)] : [])];
  }
  const folder = logFolderOf(schedule);
  status.log = { ...status.log, folder };
  if (primary === undefined) {
    report(schedule, status, { isGood: false, reason: "NoPrimary", message: "no primary of the App responds" }, now);
    return [];
  }
  record(status, primary.role, now);
  report(schedule, status, verdict(status, backups, now), now);
  if (primary.role.log === undefined) {
    const message = "the plugin has no log to archive, or the Pods of the App run an older agent and must be restarted";
    report(schedule, status, { isGood: false, reason: "NotSupported", message }, now);
    return deletePods(pods, undefined);
  }
  if (!primary.role.log.isArchived) return [setArchive(primary.ip, true, schedule)];
  const pod = archiver(schedule, primary, log.command, keepFrom(backups, folder));
  const others = pods.filter(({ metadata }) => metadata.name !== pod.metadata.name);
  if (others.length > 0) return deletePods(others, undefined);
  if (pods.length > 0) return pods.filter(hasEnded).flatMap((each) => deletePods([each], undefined));
  return [
    ...claimEffects(schedule.spec.storage, schedule.metadata.namespace, log.claim),
    { kind: "apply", type: Pod, object: pod },
  ];
}

const hasEnded = ({ status }: DeepReadonly<PodObject>): boolean => status?.phase === "Failed" || status?.phase === "Succeeded";

/** Makes the agent of a primary archive its log, or end that. */
export function setArchive(ip: string, enabled: boolean, { metadata }: DeepReadonly<BackupSchedule>): Effect {
  return {
    kind: "call",
    ip,
    call: { method: "SetLogArchive", enabled, token: `${metadata.uid}/log/${enabled}` },
    after: () => undefined,
  };
}

/** What the agent says about its log. */
function record(status: BackupScheduleStatus, { log }: Role, now: number): void {
  const { log: last } = status;
  if (last === undefined || log === undefined) return;
  const { file, archivedAt, backlog, missing } = log;
  const missingAt = missing === undefined ? undefined : missing === last.missing ? last.missingAt : formatTime(now);
  const behindSince = (backlog ?? 0) === 0 ? undefined : (last.behindSince ?? formatTime(now));
  status.log = {
    folder: last.folder,
    backlog: backlog ?? 0,
    ...(file === undefined ? {} : { lastFile: file }),
    ...(archivedAt === undefined ? {} : { archivedAt }),
    ...(missing === undefined || missingAt === undefined ? {} : { missing, missingAt }),
    ...(behindSince === undefined ? {} : { behindSince }),
  };
}

/** The archive of a log in the status of a BackupSchedule. */
export type LogStatus = DeepReadonly<NonNullable<BackupScheduleStatus["log"]>>;

/** Whether log was lost before it was archived. A later backup does not need it. */
export function isLogLost({ folder, missing, missingAt = "" }: LogStatus, backups: readonly DeepReadonly<Backup>[]): boolean {
  const isCovered = backups.some(
    ({ status }) => status?.logFolder === folder && status.phase === "Completed" && (status.startedAt ?? "") > missingAt,
  );
  return missing !== undefined && !isCovered;
}

interface Verdict {
  readonly isGood: boolean;
  readonly reason: string;
  readonly message: string;
}

function verdict({ log }: BackupScheduleStatus, backups: readonly DeepReadonly<Backup>[], now: number): Verdict {
  const { backlog = 0, behindSince, missing, lastFile, archivedAt } = log ?? {};
  if (log !== undefined && isLogLost(log, backups)) {
    const message = `log before ${missing} was lost: earlier backups cannot be recovered beyond it; take a backup`;
    return { isGood: false, reason: "LogMissing", message };
  }
  if (behindSince !== undefined && now - (parseTime(behindSince) ?? now) > maxDelayMs) {
    const message = `${backlog} log files have been waiting since ${behindSince}; the logs of the archiving Pod give the reason`;
    return { isGood: false, reason: "Behind", message };
  }
  const message = lastFile === undefined ? "no log file is complete yet" : `archived ${lastFile} at ${archivedAt}`;
  return { isGood: true, reason: "Archiving", message };
}

function report(
  schedule: DeepReadonly<BackupSchedule>,
  status: BackupScheduleStatus,
  outcome: Verdict | undefined,
  now: number,
) {
  if (outcome === undefined) {
    status.conditions = (status.conditions ?? []).filter(({ type }) => type !== "LogArchived");
    return;
  }
  const { isGood, reason, message } = outcome;
  const observedGeneration = schedule.metadata.generation ?? 0;
  const condition = { type: "LogArchived", status: isGood, reason, message, observedGeneration };
  status.conditions = draft(setCondition(status.conditions, condition, now)) as Condition[];
}

/** Backups of which one may need the oldest log. */
const maxOldest = 20;

/**
 * The first files of the log that the oldest backups need. Undefined: nothing is deleted. The oldest backup alone does not decide: one of
 * a replica that lags may start before an older one of the primary.
 */
function keepFrom(backups: readonly DeepReadonly<Backup>[], folder: string): readonly string[] | undefined {
  const own = backups
    .filter(({ status }) => status?.logFolder === folder && status.phase !== "Failed")
    .sort((a, b) => ((a.status?.startedAt ?? "") < (b.status?.startedAt ?? "") ? -1 : 1));
  const [oldest] = own;
  // One that still runs needs log that is not known yet.
  if (oldest === undefined || !isFinished(oldest.status ?? {})) return undefined;
  const names = own.slice(0, maxOldest).flatMap(({ status }) => status?.artifact?.logStart ?? []);
  return names.length === 0 ? undefined : [...new Set(names)].toSorted();
}

function archiver(
  schedule: DeepReadonly<BackupSchedule>,
  { ip, image, hasTls }: NonNullable<LogObservation["primary"]>,
  command: readonly string[],
  from: readonly string[] | undefined,
): PodObject {
  const { storage, encryption, app } = schedule.spec;
  const work = {
    kind: "archive",
    agent: agentUrl(ip),
    folder: logFolderOf(schedule),
    mustEncrypt: encryption !== undefined,
    ...(from === undefined ? {} : { keepFrom: from }),
  } as const;
  // Its name says what it does, so that another primary needs another Pod.
  const hash = createHash("sha256")
    .update(JSON.stringify([work, storage, encryption, image, ...(hasTls ? ["tls"] : [])]))
    .digest("hex")
    .slice(0, 8);
  return transferPod({
    owner: schedule,
    transfer: { pod: `${(schedule.metadata.name ?? "").slice(0, 40)}-log-${hash}` },
    settings: { storage, ...(encryption === undefined ? {} : { encryption }) },
    ...{ work, app: app.name, hasTls, image, command },
  });
}

/** Whether the condition of the log changed, for events. */
export function changedLogCondition(
  before: DeepReadonly<BackupScheduleStatus> | undefined,
  after: DeepReadonly<BackupScheduleStatus>,
): DeepReadonly<Condition> | undefined {
  const [old, next] = [findCondition(before?.conditions, "LogArchived"), findCondition(after.conditions, "LogArchived")];
  return next === undefined || old?.reason === next.reason ? undefined : next;
}
