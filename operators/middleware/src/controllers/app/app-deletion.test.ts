import type { DeepReadonly } from "@keelson/api-machinery";
import type { PersistentVolumeClaimObject } from "@keelson/api-machinery/kinds";
import { describe, expect, it } from "vitest";
import type { App, AppStatus } from "../../api/app.ts";
import type { Backup } from "../../api/backup.ts";
import type { Group } from "../../api/group.ts";
import { appFinalizer, labels } from "../../api/names.ts";
import type { Decision } from "../effect.ts";
import { defaultControllerSettings } from "../../settings/controller-settings.ts";
import { decideDeletion } from "./app-deletion.ts";

const deletionTimestamp = "2026-01-01T00:00:00Z";
const first = "cache-last-12345678";

const appOf = (status: AppStatus = {}): DeepReadonly<App> => ({
  apiVersion: "middleware.io/v1alpha1",
  kind: "App",
  metadata: {
    ...{ name: "cache", namespace: "default", uid: "12345678-1", generation: 2, deletionTimestamp },
    finalizers: [appFinalizer],
  },
  spec: { plugin: { name: "redis", version: "1.0.0" }, runtime: { name: "redis", version: "7.0" }, deletionPolicy: "Snapshot" },
  status,
});
const groupOf = (name: string, hasPrimary = true) =>
  ({
    ...{ apiVersion: "middleware.io/v1alpha1", kind: "Group" },
    metadata: { name: `cache-redis-${name}`, labels: { [labels.component]: "redis", [labels.group]: name } },
    spec: {},
    status: hasPrimary ? { primary: { pod: `cache-redis-${name}-0`, epoch: 1 } } : {},
  }) as unknown as DeepReadonly<Group>;
const claimOf = (group: string) =>
  ({
    ...{ apiVersion: "v1", kind: "PersistentVolumeClaim" },
    metadata: { name: `data-${group}`, namespace: "default", labels: { [labels.group]: `cache-redis-${group}` } },
  }) as DeepReadonly<PersistentVolumeClaimObject>;
function backupOf(
  name: string,
  { app = { name: "cache" }, source, ...more }: { app?: object; source?: object } & Partial<Backup["metadata"]> = {},
): DeepReadonly<Backup> {
  const metadata = { name, creationTimestamp: "2026-01-01T00:00:05Z", ...more };
  const status = { phase: "Completed", ...(source === undefined ? {} : { source }) };
  return { apiVersion: "middleware.io/v1alpha1", kind: "Backup", metadata, spec: { app }, status } as DeepReadonly<Backup>;
}

/** Decides repeatedly, with each status written, until something else is done. */
function decide(names: readonly DeepReadonly<Group>[], backups: readonly DeepReadonly<Backup>[]) {
  let status: AppStatus = {};
  for (;;) {
    const decision: Decision = decideDeletion({
      app: appOf(status),
      components: new Map(),
      groups: names,
      claims: names.map(({ metadata }) => claimOf(metadata.labels?.[labels.group] ?? "")),
      lastBackups: new Map(backups.map((backup) => [backup.metadata.name ?? "", backup])),
      plugin: { problem: "missing" },
      ...{ metadata: undefined, certificateProblems: [] },
      backupSchedule: undefined,
      settings: defaultControllerSettings.app,
      now: Date.parse(deletionTimestamp) + 10_000,
    });
    const written = decision.effects.find((effect) => effect.kind === "status");
    if (written === undefined) return { status, effects: decision.effects };
    status = written.status as AppStatus;
  }
}
const created = ({ effects }: ReturnType<typeof decide>) =>
  effects.flatMap((effect) => (effect.kind === "create" ? [effect.object as Backup] : []));
const deleted = ({ effects }: ReturnType<typeof decide>) =>
  effects.flatMap((effect) => (effect.kind === "delete" ? [effect.key.name] : []));

describe("the deletion of an App with the policy Snapshot", () => {
  it("takes a Backup that lacks no acknowledged write, and says how to skip it", () => {
    const decision = decide([groupOf("nodes")], []);
    expect(created(decision)).toMatchObject([
      { metadata: { name: first }, spec: { app: { component: "redis", group: "nodes" }, maxReplicationLag: "0" } },
    ]);
    expect(decision.status.message).toBe(
      `waiting for the last Backup ${first}: creating; to skip it, set spec.deletionPolicy to Retain or Delete`,
    );
  });

  it("takes a Backup of each group with data, and deletes only volumes that a Backup contains", () => {
    const groups = [groupOf("a"), groupOf("b"), groupOf("proxy", false)];
    const both = [`${first}-redis-a`, `${first}-redis-b`];
    expect(created(decide(groups, [])).map(({ metadata }) => metadata.name)).toEqual(both);
    const half = decide(groups, [backupOf(both[0] ?? "")]);
    expect(created(half).map(({ metadata }) => metadata.name)).toEqual([both[1]]);
    expect(half.status.deletion).toMatchObject({ backedUpGroups: ["cache-redis-a"] });
    expect(half.status.deletion).not.toHaveProperty("backupCompleted");
    const all = decide(
      groups,
      both.map((name) => backupOf(name)),
    );
    expect(all.status.deletion).toMatchObject({ backupCompleted: true });
    expect(deleted(all)).toEqual(["data-a", "data-b"]);
    expect(all.effects.at(-1)).toMatchObject({ kind: "remove-finalizer" });
  });

  it.each([
    ["was created before the deletion", backupOf(first, { creationTimestamp: "2025-12-31T23:59:59Z" })],
    ["is being deleted", backupOf(first, { deletionTimestamp: "2026-01-01T00:00:06Z" })],
    ["is of another App", backupOf(first, { app: { name: "other" } })],
    ["is of another group", backupOf(first, { app: { name: "cache", group: "other" } })],
    ["may lack data of a primary that did not respond", backupOf(first, { source: { pod: "1", role: "replica", reason: "" } })],
  ])("does not trust a completed Backup that %s", (_, backup) => {
    const decision = decide([groupOf("nodes")], [backup]);
    expect(decision.effects).toEqual([]);
    expect(decision.status.deletion).toEqual({ backup: first });
    expect(decision.status.message).toContain("set spec.deletionPolicy to Retain or Delete");
  });

  it("keeps all volumes if no group has data", () => {
    const decision = decide([groupOf("nodes", false)], []);
    expect(deleted(decision)).toEqual([]);
    expect(decision.effects).toMatchObject([{ kind: "remove-finalizer" }]);
  });
});
