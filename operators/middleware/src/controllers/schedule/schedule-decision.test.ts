import type { DeepReadonly } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import { describe, expect, it } from "vitest";
import type { Backup, BackupStatus } from "../../api/backup.ts";
import type { BackupSchedule, BackupScheduleSpec } from "../../api/backup-schedule.ts";
import type { Decision } from "../effect.ts";
import { decideSchedule, type ScheduleObservation } from "./schedule-decision.ts";

const at = (time: string): number => parseTime(time) ?? 0;
const decide = (observed: Omit<ScheduleObservation, "restored"> & Partial<ScheduleObservation>): Decision =>
  decideSchedule({ restored: new Set(), ...observed });
const created = "2026-03-01T00:00:00Z";

function scheduleOf(spec: Partial<BackupScheduleSpec>, lastScheduleTime?: string): DeepReadonly<BackupSchedule> {
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "BackupSchedule",
    metadata: { name: "nightly", namespace: "default", uid: "schedule-uid", creationTimestamp: created, generation: 1 },
    spec: { app: { name: "cache" }, storage: { volume: { claimName: "backups" } }, schedule: "0 2 * * *", ...spec },
    ...(lastScheduleTime === undefined ? {} : { status: { lastScheduleTime } }),
  };
}

function backupOf(name: string, status: BackupStatus): DeepReadonly<Backup> {
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Backup",
    metadata: {
      name,
      namespace: "default",
      uid: `uid-${name}`,
      labels: { "middleware.io/backup-schedule-uid": "schedule-uid" },
    },
    spec: { app: { name: "cache" }, storage: { volume: { claimName: "backups" } } },
    status,
  };
}
const complete = (name: string, completedAt: string): DeepReadonly<Backup> =>
  backupOf(name, { phase: "Completed", completedAt });

const createdBy = (decision: Decision) =>
  decision.effects.flatMap((effect) => (effect.kind === "create" ? [effect.object.metadata.name] : []));
const deleted = (decision: Decision) =>
  decision.effects.flatMap((effect) => (effect.kind === "delete" ? [effect.key.name] : []));
const statusOf = (decision: Decision) =>
  decision.effects.flatMap((effect) => (effect.kind === "status" ? [effect.status as BackupSchedule["status"]] : []))[0];

describe("a BackupSchedule", () => {
  it("waits for the next scheduled time", () => {
    const decision = decide({ schedule: scheduleOf({}), backups: [], now: at("2026-03-01T01:00:00Z") });
    expect(createdBy(decision)).toEqual([]);
    expect(decision.requeueAfterMs).toBe(3_600_000);
    expect(statusOf(decision)?.nextScheduleTime).toBe("2026-03-01T02:00:00Z");
  });

  it("creates one Backup for the latest missed time, with its settings and the policy Delete", () => {
    const schedule = scheduleOf({ verify: true, encryption: { keySecret: { name: "key" } } });
    const now = at("2026-03-04T05:00:00Z");
    const decision = decide({ schedule, backups: [], now });
    const name = `nightly-${at("2026-03-04T02:00:00Z") / 60_000}`;
    expect(createdBy(decision)).toEqual([name]);
    expect(decision.effects.find(({ kind }) => kind === "create")).toMatchObject({
      object: {
        metadata: { labels: { "middleware.io/backup-schedule": "nightly", "middleware.io/app": "cache" } },
        spec: { deletionPolicy: "Delete", verify: true, encryption: { keySecret: { name: "key" } } },
      },
    });
    // A controller that crashed before it recorded the time finds the Backup.
    const again = decide({ schedule, backups: [backupOf(name, {})], now });
    expect(createdBy(again)).toEqual([]);
    expect(statusOf(again)?.lastScheduleTime).toBe("2026-03-04T02:00:00Z");
  });

  it("does not adopt a Backup of that name that a user created", () => {
    const now = at("2026-03-04T05:00:00Z");
    const name = `nightly-${at("2026-03-04T02:00:00Z") / 60_000}`;
    const foreign = backupOf(name, {});
    const decision = decide({
      schedule: scheduleOf({}),
      backups: [{ ...foreign, metadata: { ...foreign.metadata, labels: {} } }],
      now,
    });
    expect(createdBy(decision)).toEqual([]);
    expect(statusOf(decision)?.message).toContain(`Backup ${name} exists and does not belong to this BackupSchedule`);
  });

  it("uses its time zone", () => {
    const schedule = scheduleOf({ timeZone: "Asia/Shanghai" });
    const decision = decide({ schedule, backups: [], now: at("2026-03-01T00:30:00Z") });
    expect(statusOf(decision)?.nextScheduleTime).toBe("2026-03-01T18:00:00Z");
  });

  it("reports an invalid schedule or time zone, and creates nothing", () => {
    for (const spec of [{ schedule: "61 * * * *" }, { schedule: "daily" }, { timeZone: "Mars/Olympus" }]) {
      const decision = decide({ schedule: scheduleOf(spec), backups: [], now: at("2026-03-04T05:00:00Z") });
      expect(createdBy(decision)).toEqual([]);
      expect(statusOf(decision)?.conditions).toContainEqual(
        expect.objectContaining({ type: "Ready", status: "False", reason: "InvalidSchedule" }),
      );
    }
  });

  it("creates nothing while it is suspended, and still applies the retention", () => {
    const schedule = scheduleOf({ suspend: true, retention: { count: 1 } });
    const backups = [complete("a", "2026-03-01T02:00:00Z"), complete("b", "2026-03-02T02:00:00Z")];
    const decision = decide({ schedule, backups, now: at("2026-03-04T05:00:00Z") });
    expect(createdBy(decision)).toEqual([]);
    expect(deleted(decision)).toEqual(["a"]);
  });

  it("skips a backup that is too late", () => {
    const schedule = scheduleOf({ startingDeadline: "1h" });
    const decision = decide({ schedule, backups: [], now: at("2026-03-04T05:00:00Z") });
    expect(createdBy(decision)).toEqual([]);
    expect(statusOf(decision)).toMatchObject({
      lastScheduleTime: "2026-03-04T02:00:00Z",
      message: "skipped the backup of 2026-03-04T02:00:00Z: it is later than 1h",
    });
  });

  it.each([
    ["Forbid", [], []],
    ["Allow", ["nightly-29541720"], []],
    ["Replace", ["nightly-29541720"], ["running"]],
  ] as const)("with %s and a running backup creates %j and deletes %j", (concurrencyPolicy, creates, deletes) => {
    const decision = decide({
      schedule: scheduleOf({ concurrencyPolicy }),
      backups: [backupOf("running", { phase: "Running" })],
      now: at("2026-03-03T02:00:00Z"),
    });
    expect(createdBy(decision).length).toBe(creates.length);
    expect(deleted(decision)).toEqual(deletes);
    expect(statusOf(decision)?.lastScheduleTime).toBe("2026-03-03T02:00:00Z");
  });
});

describe("the retention of a BackupSchedule", () => {
  const now = at("2026-03-20T03:00:00Z");
  const recent = "2026-03-20T02:00:00Z";
  const deletedWith = (retention: BackupScheduleSpec["retention"], backups: readonly DeepReadonly<Backup>[]) =>
    deleted(decide({ schedule: scheduleOf({ ...(retention ? { retention } : {}) }, recent), backups, now }));
  const days = ["10", "12", "14", "16"].map((day) => complete(`day-${day}`, `2026-03-${day}T02:00:00Z`));

  it("keeps everything by default", () => {
    expect(deletedWith(undefined, days)).toEqual([]);
  });

  it("keeps the newest by count, and the young by age", () => {
    expect(deletedWith({ count: 2 }, days)).toEqual(["day-12", "day-10"]);
    expect(deletedWith({ maxAge: "150h" }, days)).toEqual(["day-12", "day-10"]);
    expect(deletedWith({ count: 3, maxAge: "150h" }, days)).toEqual(["day-12", "day-10"]);
  });

  it("never deletes the newest complete backup, however old it is", () => {
    expect(deletedWith({ maxAge: "1h" }, days)).toEqual(["day-14", "day-12", "day-10"]);
    const failed = backupOf("failed", { phase: "Failed", completedAt: recent });
    expect(deletedWith({ count: 1 }, [...days.slice(0, 1), failed])).toEqual([]);
  });

  it("never deletes the newest backup that could be restored", () => {
    const bad = backupOf("bad", {
      phase: "Completed",
      completedAt: recent,
      conditions: [{ type: "Verified", status: "False", reason: "RestoreFailed", message: "", lastTransitionTime: recent }],
    });
    expect(deletedWith({ count: 1 }, [...days, bad])).toEqual(["day-14", "day-12", "day-10"]);
  });

  it("keeps the last verified backup while a newer one is being verified", () => {
    const verifying = (backup: DeepReadonly<Backup>, value?: "True" | "Unknown"): DeepReadonly<Backup> => ({
      ...backup,
      spec: { ...backup.spec, verify: true },
      status: {
        ...backup.status,
        ...(value && {
          conditions: [{ type: "Verified", status: value, reason: "Test", message: "", lastTransitionTime: recent }],
        }),
      },
    });
    for (const value of [undefined, "Unknown"] as const) {
      const backups = [
        verifying(complete("old", "2026-03-10T02:00:00Z"), "True"),
        verifying(complete("verified", "2026-03-12T02:00:00Z"), "True"),
        verifying(complete("new", "2026-03-14T02:00:00Z"), value),
      ];
      expect(deletedWith({ count: 1 }, backups), String(value)).toEqual(["old"]);
    }
  });

  it("deletes only what this BackupSchedule created for its App", () => {
    const [oldest, ...others] = days;
    if (oldest === undefined) throw new Error("no backups");
    const user = { ...oldest, metadata: { ...oldest.metadata, labels: { "middleware.io/backup-schedule": "nightly" } } };
    const other = { ...oldest, spec: { ...oldest.spec, app: { name: "other" } } };
    for (const each of [user, other]) expect(deletedWith({ count: 1 }, [...others, each])).toEqual(["day-14", "day-12"]);
  });

  it("waits for the Restores that use a backup", () => {
    const schedule = scheduleOf({ retention: { count: 1 } }, recent);
    expect(deleted(decide({ schedule, backups: days, restored: new Set(["day-12"]), now }))).toEqual(["day-14", "day-10"]);
  });

  it("never deletes unfinished backups, and keeps the last three failed ones", () => {
    const unfinished = [backupOf("pending", { phase: "Pending" }), backupOf("new", {})];
    const failed = [1, 2, 3, 4, 5].map((hour) =>
      backupOf(`failed-${hour}`, { phase: "Failed", completedAt: `2026-03-01T0${hour}:00:00Z` }),
    );
    expect(deletedWith({ count: 1, maxAge: "1h" }, [...unfinished, ...failed])).toEqual(["failed-2", "failed-1"]);
  });

  it("wakes up when the next backup becomes too old", () => {
    const schedule = scheduleOf({ suspend: true, retention: { maxAge: "240h" } }, recent);
    const decision = decide({ schedule, backups: days.slice(0, 2), now: at("2026-03-20T01:00:00Z") });
    expect(decision.requeueAfterMs).toBe(3_600_001);
  });
});
