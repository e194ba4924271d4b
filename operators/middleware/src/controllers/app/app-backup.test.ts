import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { App } from "../../api/app.ts";
import type { BackupSchedule } from "../../api/backup-schedule.ts";
import { scheduleEffects } from "./app-backup.ts";

const appOf = (backup: App["spec"]["backup"]): DeepReadonly<App> => ({
  apiVersion: "middleware.io/v1alpha1",
  kind: "App",
  metadata: { name: "cache", namespace: "default", uid: "app-uid" },
  spec: {
    plugin: { name: "redis", version: "1.0.0" },
    runtime: { name: "redis", version: "7.0" },
    components: [{ name: "redis", groups: [{ name: "nodes", storage: { size: "2Gi" } }] }],
    ...(backup === undefined ? {} : { backup }),
  },
});
const applied = (app: DeepReadonly<App>, current?: DeepReadonly<BackupSchedule>) =>
  scheduleEffects(app, current).map((effect) => (effect.kind === "apply" ? (effect.object as BackupSchedule) : undefined));
const seed = { enabled: true, schedule: "0 2 * * *", retention: 3 };

describe("the backup section of an App", () => {
  it("becomes a BackupSchedule that the App owns, with a volume for all backups that are kept", () => {
    expect(applied(appOf(seed))).toMatchObject([
      {
        metadata: { name: "cache", ownerReferences: [{ uid: "app-uid" }] },
        spec: {
          app: { name: "cache" },
          schedule: "0 2 * * *",
          retention: { count: 3 },
          storage: { volume: { claimName: "cache-backups", size: String(8 * 1_073_741_824) } },
        },
      },
    ]);
  });

  it("does nothing without a schedule, if it is disabled, or if nothing has changed", () => {
    expect(applied(appOf(undefined))).toEqual([]);
    expect(applied(appOf({ enabled: true }))).toEqual([]);
    expect(applied(appOf({ ...seed, enabled: false }))).toEqual([]);
    const [current] = applied(appOf(seed));
    expect(applied(appOf(seed), current)).toEqual([]);
  });

  it("suspends its schedule when it is disabled or removed, and resumes it", () => {
    const [current] = applied(appOf(seed));
    for (const backup of [undefined, { ...seed, enabled: false }]) {
      const [suspended] = applied(appOf(backup), current);
      expect(suspended?.spec).toMatchObject({ suspend: true, schedule: "0 2 * * *" });
      expect(applied(appOf(backup), suspended)).toEqual([]);
      const [resumed] = applied(appOf(seed), suspended);
      expect(resumed?.spec.suspend).toBeUndefined();
    }
  });

  it("leaves a schedule that a user created alone", () => {
    const [own] = applied(appOf(seed));
    if (own === undefined) throw new Error("no schedule");
    const other: BackupSchedule = { ...own, metadata: { name: "cache", namespace: "default" } };
    expect(applied(appOf({ ...seed, retention: 9 }), other)).toEqual([]);
  });
});
