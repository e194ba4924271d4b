import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { describe, expect, it } from "vitest";
import type { Backup } from "../../api/backup.ts";
import type { BackupSchedule } from "../../api/backup-schedule.ts";
import { backupFinalizer } from "../../api/backup-parts.ts";
import type { Role } from "../group/observation.ts";
import { findLogFolder } from "./find-log-folder.ts";
import type { LogObservation } from "./log-decision.ts";
import { decideSchedule } from "./schedule-decision.ts";

const now = Date.UTC(2026, 0, 2);
const storage = { volume: { claimName: "backups" } };
const schedule: DeepReadonly<BackupSchedule> = {
  apiVersion: "middleware.io/v1alpha1",
  kind: "BackupSchedule",
  metadata: { name: "nightly", namespace: "default", uid: "12345678-aaaa", generation: 1, finalizers: [backupFinalizer] },
  spec: { app: { name: "db" }, storage, schedule: "0 0 1 1 *", log: true },
};
const folder = "default/db/nightly-12345678-log";

const role = (log: Role["log"]): Role => ({ role: "primary", isInSync: true, ...(log === undefined ? {} : { log }) });
const primary = (log: Role["log"], ip = "10.0.0.1") => ({ ip, role: role(log), image: "postgres:15", hasTls: false });
const archiving = { isArchived: true, backlog: 0 };
const base: LogObservation = {
  ...{ isResponsible: true, other: undefined, hasGroup: true, pods: [], claim: undefined, command: ["transfer"] },
  primary: primary(archiving),
};

function decide(
  log: Partial<LogObservation>,
  object: DeepReadonly<BackupSchedule> = schedule,
  backups: DeepReadonly<Backup>[] = [],
) {
  const decision = decideSchedule({ schedule: object, backups, restored: new Set(), log: { ...base, ...log }, now });
  const written = decision.effects.find((effect) => effect.kind === "status");
  const status = (written?.status ?? {}) as NonNullable<BackupSchedule["status"]>;
  const condition = status.conditions?.find(({ type }) => type === "LogArchived");
  const created = decision.effects.flatMap((effect) => (effect.kind === "apply" ? [effect.object as PodObject] : []));
  const others = decision.effects.filter(({ kind }) => kind !== "status");
  return { ...decision, status, condition, created, others };
}

const podFor = (log: Partial<LogObservation> = {}, backups: DeepReadonly<Backup>[] = []): PodObject =>
  decide(log, schedule, backups).created[0] ?? expect.fail("no Pod was created");
const workOf = (pod: PodObject) => JSON.parse(pod.spec.containers[0]?.env?.[0]?.value ?? "{}") as Record<string, unknown>;

const backup = (startedAt: string, status: object = {}): DeepReadonly<Backup> => ({
  apiVersion: "middleware.io/v1alpha1",
  kind: "Backup",
  metadata: { name: startedAt, namespace: "default" },
  spec: { app: { name: "db" }, storage },
  status: { phase: "Completed", startedAt, logFolder: folder, ...status },
});
const artifactOf = (logStart: string) => ({ artifact: { logStart } as NonNullable<Backup["status"]>["artifact"] });

describe("the archive of a log", () => {
  it("makes the agent keep its log before a Pod archives it, and both only with a finalizer", () => {
    const { others } = decide({ primary: primary({ isArchived: false }) });
    expect(others).toMatchObject([{ kind: "call", ip: "10.0.0.1", call: { method: "SetLogArchive", enabled: true } }]);
    const { finalizers: _, ...metadata } = schedule.metadata;
    expect(decide({}, { ...schedule, metadata }).effects).toMatchObject([{ kind: "add-finalizer" }]);
  });

  it("is read from the primary by one Pod, which is restarted until it is deleted", () => {
    const pod = podFor();
    expect(workOf(pod)).toMatchObject({ kind: "archive", agent: "http://10.0.0.1:50052", folder });
    expect(pod.spec).toMatchObject({ restartPolicy: "Always" });
    expect(pod.spec).not.toHaveProperty("activeDeadlineSeconds");
    expect(decide({ pods: [pod] }).others).toEqual([]);
  });

  it("follows another primary: the old Pod is deleted first, and the new one created when it is gone", () => {
    const old = podFor();
    const next = { primary: primary(archiving, "10.0.0.2") };
    expect(decide({ ...next, pods: [old] }).others).toMatchObject([{ kind: "delete", key: { name: old.metadata.name } }]);
    const terminating = { ...old, metadata: { ...old.metadata, deletionTimestamp: "2026-01-02T00:00:00Z" } };
    expect(decide({ ...next, pods: [terminating] }).others).toEqual([]);
    expect(podFor(next).metadata.name).not.toBe(old.metadata.name);
  });

  it("keeps the log that the oldest backups need, and all of it while one runs that may need more", () => {
    const completed = [backup("2026-01-01T02:00:00Z", artifactOf("b")), backup("2026-01-01T01:00:00Z", artifactOf("a"))];
    expect(workOf(podFor({}, completed))).toMatchObject({ keepFrom: ["a", "b"] });
    const running = backup("2026-01-01T00:30:00Z", { phase: "Running" });
    expect(workOf(podFor({}, [...completed, running]))).not.toHaveProperty("keepFrom");
    expect(workOf(podFor({}, [backup("2026-01-01T00:00:00Z", { ...artifactOf("c"), logFolder: "other" })]))).not.toHaveProperty(
      "keepFrom",
    );
  });

  it("reports lost log until a later backup does not need it", () => {
    const lost = { primary: primary({ ...archiving, missing: "f" }) };
    const { condition, status } = decide(lost);
    expect(condition).toMatchObject({ status: "False", reason: "LogMissing" });
    const later = { ...schedule, status };
    expect(decide(lost, later, [backup("2026-01-01T00:00:00Z")]).condition ?? condition).toMatchObject({
      reason: "LogMissing",
    });
    const other = backup("2026-01-03T00:00:00Z", { logFolder: "other" });
    expect(decide(lost, later, [other]).condition ?? condition).toMatchObject({ reason: "LogMissing" });
    expect(decide(lost, later, [backup("2026-01-03T00:00:00Z")]).condition).toMatchObject({ status: "True" });
  });

  it("reports files that wait for too long, a missing primary, a plugin without a log, and another BackupSchedule", () => {
    const waiting = { ...schedule, status: { log: { folder, behindSince: "2026-01-01T23:00:00Z" } } };
    expect(decide({ primary: primary({ ...archiving, backlog: 3 }) }, waiting).condition).toMatchObject({
      status: "False",
      reason: "Behind",
      message: "3 log files have been waiting since 2026-01-01T23:00:00Z; the logs of the archiving Pod give the reason",
    });
    expect(decide({ primary: undefined }).condition).toMatchObject({ status: "False", reason: "NoPrimary" });
    expect(decide({ primary: primary(undefined) }).condition).toMatchObject({ status: "False", reason: "NotSupported" });
    const conflict = decide({ isResponsible: false, other: "weekly", pods: [podFor()] });
    expect(conflict.condition).toMatchObject({ status: "False", reason: "Conflict" });
    expect(conflict.others).toMatchObject([{ kind: "delete" }]);
  });

  it("ends before its BackupSchedule is deleted, so that the program deletes its log again", () => {
    const deleted = { ...schedule, metadata: { ...schedule.metadata, deletionTimestamp: "2026-01-02T00:00:00Z" } };
    const left = { isResponsible: false };
    expect(decide({ ...left, pods: [podFor()] }, deleted).effects).toMatchObject([
      { kind: "delete" },
      { kind: "call", call: { method: "SetLogArchive", enabled: false } },
    ]);
    const [keeps, removes] = [{ kind: "call" }, { kind: "remove-finalizer" }];
    expect(decide(left, deleted).effects).toMatchObject([keeps]);
    expect(decide({ ...left, primary: undefined }, deleted)).toMatchObject({ effects: [], requeueAfterMs: 15_000 });
    expect(decide({ ...left, primary: undefined, hasGroup: false }, deleted).effects).toMatchObject([removes]);
    expect(decide({ ...left, primary: primary({ isArchived: false }) }, deleted).effects).toMatchObject([removes]);
    // Another one continues.
    expect(decide({ ...left, other: "weekly" }, deleted).effects).toMatchObject([removes]);
  });

  it("can be used with backups of the same storage and encryption only", () => {
    expect(findLogFolder(backup("x"), [schedule])).toBe(folder);
    const elsewhere = { ...backup("x"), spec: { app: { name: "db" }, storage: { volume: { claimName: "other" } } } };
    const encrypted = { ...backup("x"), spec: { ...backup("x").spec, encryption: { keySecret: { name: "key" } } } };
    const suspended = { ...schedule, spec: { ...schedule.spec, suspend: true } };
    expect([
      findLogFolder(elsewhere, [schedule]),
      findLogFolder(encrypted, [schedule]),
      findLogFolder(backup("x"), [suspended]),
    ]).toEqual([undefined, undefined, undefined]);
  });
});
