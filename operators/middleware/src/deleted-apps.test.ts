import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { App } from "./api/app.ts";
import { lastBackupName } from "./controllers/app/last-backup.ts";
import { coldChange, provisioned } from "./testing/simulated-app.ts";
import type { Simulation } from "./testing/simulation.ts";

const deleteApp = ({ store }: Simulation): void =>
  store.edit("App", "cache", (app) => ({ ...app, metadata: { ...app.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } }));
const stopsSince = ({ redis }: Simulation, from: number) =>
  redis.commands
    .slice(from)
    .filter(({ command }) => command === "stops")
    .map(({ pod }) => pod.slice(-1));
const keptVolumes = ({ store }: Simulation) =>
  store.all("PersistentVolumeClaim").filter(({ metadata }) => metadata.deletionTimestamp === undefined).length;
const appOf = ({ store }: Simulation) => store.get("App", "cache") as DeepReadonly<App> | undefined;

describe("a deleted App", { timeout: 60_000 }, () => {
  it("stops its Pods with the primary last, including in the middle of a change, and keeps its volumes", async () => {
    const simulation = await provisioned();
    simulation.change(coldChange);
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    const from = simulation.redis.commands.length;
    deleteApp(simulation);
    await simulation.run();
    expect(stopsSince(simulation, from)).toEqual(["1", "0"]);
    expect(simulation.store.all("Pod")).toEqual([]);
    expect(appOf(simulation)).toBeUndefined();
    expect(keptVolumes(simulation)).toBe(3);
  });

  it("deletes its volumes with the policy Delete, after the Pods have stopped", async () => {
    const simulation = await provisioned(undefined, { deletionPolicy: "Delete" });
    deleteApp(simulation);
    await simulation.run();
    expect(appOf(simulation)).toBeUndefined();
    expect(keptVolumes(simulation)).toBe(0);
    const lastPod = simulation.actions.findLastIndex((action) => action.startsWith("delete Pod"));
    expect(simulation.actions.findIndex((action) => action.startsWith("delete PersistentVolumeClaim"))).toBeGreaterThan(
      lastPod,
    );
  });

  it("does not wait forever for Pods that do not stop, and deletes no volume that the policy keeps", async () => {
    const simulation = await provisioned();
    simulation.redis.answers = ({ method }) => (method === "Stop" ? { kind: "refused", message: "busy" } : undefined);
    const before = simulation.clock.now();
    deleteApp(simulation);
    await simulation.run(() => appOf(simulation) === undefined);
    expect(simulation.clock.now() - before).toBeGreaterThanOrEqual(300_000);
    expect(keptVolumes(simulation)).toBe(3);
  });

  it("deletes its volumes with the policy Snapshot only after its last Backup has completed", async () => {
    const simulation = await provisioned(undefined, { deletionPolicy: "Snapshot" });
    const app = appOf(simulation);
    const backup = app === undefined ? "" : lastBackupName(app);
    const finish = (phase: string, message: string): void =>
      simulation.store.edit("Backup", backup, (each) => ({ ...each, status: { phase, message } }));
    deleteApp(simulation);
    await simulation.run();
    expect(simulation.store.get("Backup", backup)).toMatchObject({
      metadata: { name: backup },
      spec: { app: { name: "cache" }, deletionPolicy: "Retain", storage: { volume: { claimName: "cache-backups" } } },
    });
    finish("Failed", "no space left");
    await simulation.run();
    expect(appOf(simulation)?.status).toMatchObject({
      phase: "Deleting",
      message: expect.stringContaining("failed: no space left"),
    });
    expect(simulation.store.all("Pod")).toHaveLength(3);
    simulation.store.edit("Backup", backup, () => undefined);
    await simulation.run();
    finish("Completed", "");
    await simulation.run();
    expect(appOf(simulation)).toBeUndefined();
    expect(keptVolumes(simulation)).toBe(0);
    expect(simulation.store.get("Backup", backup)).toBeDefined();
  });

  it("keeps the volumes of a stopped App with the policy Snapshot", async () => {
    const simulation = await provisioned(undefined, { deletionPolicy: "Snapshot" });
    simulation.change({ stopped: true });
    await simulation.run();
    deleteApp(simulation);
    await simulation.run();
    expect(appOf(simulation)).toBeUndefined();
    expect(simulation.store.all("Backup")).toEqual([]);
    expect(keptVolumes(simulation)).toBe(3);
    expect(simulation.events.filter(({ reason }) => reason === "VolumesKept")).toHaveLength(1);
  });

  it("whose plugin is missing can be deleted", async () => {
    const simulation = await provisioned(undefined, { deletionPolicy: "Delete" });
    for (const { metadata } of simulation.store.all("ConfigMap"))
      if (metadata.name?.startsWith("redis-v")) simulation.store.edit("ConfigMap", metadata.name, () => undefined);
    deleteApp(simulation);
    await simulation.run();
    expect(appOf(simulation)).toBeUndefined();
  });

  it("whose Components are missing keeps its volumes with the policy Snapshot, and warns", async () => {
    const simulation = await provisioned(undefined, { deletionPolicy: "Snapshot" });
    // As with foreground propagation, which deletes what the App owns first.
    for (const kind of ["Component", "Group"])
      for (const { metadata } of simulation.store.all(kind)) simulation.store.edit(kind, metadata.name ?? "", () => undefined);
    deleteApp(simulation);
    await simulation.run();
    expect(appOf(simulation)).toBeUndefined();
    expect(keptVolumes(simulation)).toBe(3);
    expect(simulation.events).toContainEqual({
      reason: "VolumesKept",
      note: "no last Backup was taken because no running group has a primary; the volumes are kept",
    });
  });
});
