import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { ConfigMap, Namespace, Service } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { createManager, type Manager, silentLogger } from "@keelson/controller";
import { type FlagValues } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAgentClient } from "../../agent/agent-client.ts";
import { App, type ChangeTask } from "../../api/app.ts";
import { Backup } from "../../api/backup.ts";
import { BackupSchedule } from "../../api/backup-schedule.ts";
import { Component } from "../../api/component.ts";
import { Group } from "../../api/group.ts";
import { annotations, appFinalizer, labels, pluginNamespace } from "../../api/names.ts";
import { createAppController } from "../../controllers/app/app.ts";
import { defaultControllerSettings } from "../../settings/controller-settings.ts";
import { PluginReader } from "../../plugin/plugin-reader.ts";
import { pluginConfigMapName } from "../../plugin/read-plugin.ts";
import { redisPlugin } from "../../plugin/redis-plugin.ts";
import { changeCommands } from "./changes.ts";

const namespace = "default";
const spec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  config: { redisConfig: { maxmemory: "64mb" } },
};
let environment: TestEnvironment;
let client: Client;
let manager: Manager;
let folder: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "middleware-commands-"));
  environment = await startTestEnvironment({ crds: [App.crd, Backup.crd, BackupSchedule.crd, Component.crd, Group.crd] });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(Namespace, { metadata: { name: pluginNamespace } });
  const { name, version, data } = redisPlugin;
  await client.create(ConfigMap, { metadata: { name: pluginConfigMapName(name, version), namespace: pluginNamespace }, data });
  // The Component controller does not run, so that the first task stays in progress until it is cancelled.
  manager = createManager({
    name: "test",
    client,
    logger: silentLogger,
    controllers: [
      createAppController({
        agents: createAgentClient(),
        settings: defaultControllerSettings,
        plugins: new PluginReader(),
        agentCommand: ["agent"],
        transferCommand: ["transfer"],
        completePod: (pod) => pod,
        generateSecret: () => "secret",
      }),
    ],
  });
  await manager.start();
  await client.create(App, { metadata: { name: "cache", namespace }, spec });
  await watched(client, Component, "cache-redis", (component) => component !== undefined);
}, 60_000);

afterEach(async () => {
  await manager.stop();
  await environment.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function run(name: string, args: readonly string[], flags: FlagValues = {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const command = changeCommands.find((each) => each.name === name);
  const status = await command?.run({
    args,
    flags: { namespace, ...flags },
    stdout,
    stderr,
    clock: systemClock,
    log: silentLogger,
    signal: AbortSignal.timeout(20_000),
    client: () => Promise.resolve(client),
  });
  return { status, out: String(stdout.read() ?? ""), err: String(stderr.read() ?? "") };
}

function changed(more: object): string {
  const file = join(folder, "app.yaml");
  const app = { apiVersion: "middleware.io/v1alpha1", kind: "App", metadata: { name: "cache" }, spec: { ...spec, ...more } };
  writeFileSync(file, JSON.stringify(app));
  return file;
}

describe("keelson app", { timeout: 60_000 }, () => {
  it("plan shows the tasks of a changed file with stage, priority and effect in aligned columns and changes nothing", async () => {
    const file = changed({ config: { redisConfig: { maxmemory: "96mb" } }, runtime: { name: "redis", version: "7.2" } });
    const { status, out } = await run("plan", ["cache"], { file });
    expect(status).toBe(0);
    const [heading = "", first = "", second = ""] = out.split("\n");
    expect(heading).toMatch(/^STAGE {2}TYPE +PRIO {2}COMPONENT {2}CHANGE +EFFECT$/);
    expect(first).toMatch(
      /^1 +middleware_config {2}P2 +redis +maxmemory 64mb -> 96mb +restarts nothing, unless the program requires it$/,
    );
    expect(second).toMatch(/^2 +version_upgrade {4}P0 +redis +version redis 7.0 -> redis 7.2 +restarts every Pod/);
    expect(first.indexOf("maxmemory")).toBe(heading.indexOf("CHANGE"));
    expect((await client.get(App, { namespace, name: "cache" })).metadata.generation).toBe(1);
  });

  it("plan prints JSON, including parameters that the file no longer contains", async () => {
    const { out } = await run("plan", ["cache"], { file: changed({ config: { databases: "32" } }), output: "json" });
    expect(JSON.parse(out)).toMatchObject([
      {
        type: "middleware_config",
        priority: 20,
        effect: "restarts every Pod for maxmemory, databases, replicas first, with one switchover",
      },
    ]);
  });

  it("plan shows a cancelled change as not applied", async () => {
    await manager.stop();
    const file = changed({ config: { redisConfig: { maxmemory: "96mb" } } });
    const plan = async () => JSON.parse((await run("plan", ["cache"], { file, output: "json" })).out) as [ChangeTask];
    const [{ effect: _, ...task }] = (await plan()) as [ChangeTask & { effect: string }];
    const { status = {} } = await client.get(App, { namespace, name: "cache" });
    const cancelled = { id: "plan-2-01", generation: 2, startedAt: "2026-01-01T00:00:00Z", finishedAt: "2026-01-01T00:00:00Z" };
    await client.applyStatus(
      App,
      {
        metadata: { name: "cache", namespace },
        status: { ...status, plan: { ...cancelled, tasks: [{ ...task, status: "cancelled" }] } },
      },
      { force: true },
    );
    expect(await plan()).toMatchObject([{ status: "cancelled", effect: "not applied: it was cancelled" }]);
  });

  it("plan of a scale-in names the Pods that it removes and the switchover that it needs", async () => {
    const component = await client.get(Component, { namespace, name: "cache-redis" });
    const name = "cache-redis-nodes";
    const { plugin, runtime } = component.spec;
    await client.create(Group, {
      metadata: { name, namespace, labels: { ...component.metadata.labels, [labels.group]: "nodes" } },
      spec: { componentRef: { name: "cache-redis" }, pluginRef: { name: "redis" }, plugin, runtime, replicas: 3 },
    });
    const effectFor = async (primary: string): Promise<string> => {
      await client.applyStatus(Group, { metadata: { name, namespace }, status: { primary: { pod: primary, epoch: 1 } } });
      const components = [{ name: "redis", groups: [{ name: "nodes", replicas: 2 }] }];
      const { out } = await run("plan", ["cache"], { file: changed({ components }), output: "json" });
      return (JSON.parse(out) as [{ effect: string }])[0].effect;
    };
    expect(await effectFor(`${name}-0`)).toBe(`removes ${name}-2`);
    expect(await effectFor(`${name}-2`)).toBe(`one switchover from ${name}-2 to a remaining replica, then removes ${name}-2`);
  });

  it("plan names the invalid field and exits with 1", async () => {
    const { status, err } = await run("plan", ["cache"], { file: changed({ runtime: { name: "redis", version: "5" } }) });
    expect(status).toBe(1);
    expect(err).toContain('spec.runtime.version: "5" must be one of');
  });

  it("cancel stops the running task, tasks shows it, and retry is refused until it has stopped", async () => {
    expect((await run("tasks", ["cache"])).out).toMatch(/task-1-01 {2}in_progress {2}P3 +redis +provision redis/);
    const cancelled = await run("cancel", ["cache"], { output: "json" });
    expect(cancelled.status).toBe(0);
    expect(JSON.parse(cancelled.out)).toEqual([{ action: "cancel", taskId: "task-1-01", result: "cancelling" }]);
    const refused = await run("retry", ["cache", "task-1-01"]);
    expect(refused).toMatchObject({ status: 1, out: "task-1-01: refused: the task is cancelling\n" });
    expect(await run("retry", ["cache"])).toMatchObject({ status: 0, out: "nothing to retry\n" });
    expect(JSON.parse((await run("tasks", ["cache"], { output: "json" })).out)).toMatchObject({
      tasks: [{ taskId: "task-1-01", status: "cancelling" }],
    });
  });

  it("pause starts no more tasks, why names the command that continues, and resume continues", async () => {
    const paused = await run("pause", ["cache"]);
    expect(paused).toMatchObject({ status: 0, out: "paused; task-1-01 stops before its next disruption\n" });
    const component = await watched(client, Component, "cache-redis", (each) => each?.metadata.annotations !== undefined);
    expect(component?.metadata.annotations).toEqual({ [annotations.pauseRequest]: component?.spec.operation?.token });
    const why = JSON.parse((await run("why", ["cache"], { output: "json" })).out) as { waitsFor: object[] };
    expect(why.waitsFor).toMatchObject([
      { subject: "App cache", reason: "Paused", next: "keelson app resume cache" },
      { subject: "task-1-01", reason: "Running" },
    ]);
    expect((await run("why", ["cache"])).out).toMatch(/^SUBJECT +REASON +MESSAGE +NEXT\nApp cache +Paused /);
    expect(await run("why", ["cache", "task-9-01"])).toMatchObject({ status: 2 });
    expect(await run("resume", ["cache"])).toMatchObject({ status: 0, out: "resumed\n" });
    await watched(client, Component, "cache-redis", (each) => each?.metadata.annotations === undefined);
  });

  it("approve starts the plan that waits, and refuses another", async () => {
    await run("cancel", ["cache"]);
    expect(await run("approve", ["cache"])).toMatchObject({ status: 0, out: "nothing to approve\n" });
    expect(await run("approve", ["cache", "plan-9-01"])).toMatchObject({
      status: 1,
      out: "plan-9-01: refused: the current plan is plan-1-01\n",
    });
  });

  it("pause, cancel, retry and approve end if the App is being deleted", async () => {
    // The finalizer keeps the App.
    await watched(client, App, "cache", (app) => app?.metadata.finalizers?.includes(appFinalizer) === true);
    await client.delete(App, { namespace, name: "cache" });
    const err = "App cache is being deleted: its changes can no longer be controlled\n";
    for (const [name, ...args] of [
      ["pause"],
      ["cancel", "task-1-01"],
      ["retry", "task-1-01"],
      ["approve", "plan-1-01"],
    ] as const)
      expect(await run(name, ["cache", ...args])).toMatchObject({ status: 1, out: "", err });
  });

  it("pause, switchover and tasks --watch survive a watch that the server ends", async () => {
    await manager.stop();
    const { metadata, spec: component } = await client.get(Component, { namespace, name: "cache-redis" });
    const group = { name: "cache-redis-nodes", namespace };
    const { plugin, runtime } = component;
    await client.create(Group, {
      metadata: { ...group, labels: { ...metadata.labels } },
      spec: { componentRef: { name: "cache-redis" }, pluginRef: { name: "redis" }, plugin, runtime, replicas: 2 },
    });
    const pods = [0, 1].map((ordinal) => ({ name: `${group.name}-${ordinal}`, uid: `uid-${ordinal}`, ready: true }));
    await client.applyStatus(Group, { metadata: group, status: { pods } });
    const real = client;
    /** The first watch ends immediately, and `change` happens after the second one has started. */
    const endingWatch = (change: () => Promise<unknown>): void => {
      let watches = 0;
      const watch = async (...args: Parameters<Client["watch"]>) => {
        const opened = await real.watch(...args);
        watches += 1;
        if (watches === 1) opened.close();
        else await change();
        return opened;
      };
      const { get, list, patch } = { get: real.get.bind(real), list: real.list.bind(real), patch: real.patch.bind(real) };
      client = { get, list, patch, watch } as Client;
    };
    const app = { name: "cache", namespace };
    endingWatch(() => real.applyStatus(App, { metadata: app, status: { pausedAt: "2026-01-01T00:00:00Z" } }));
    expect(await run("pause", ["cache"])).toMatchObject({ status: 0, err: "" });
    endingWatch(async () => {
      const request = (await real.get(Group, group)).metadata.annotations?.[annotations.switchoverControl] ?? "{}";
      const switchoverControl = { id: String(JSON.parse(request).id), result: `${group.name}-1` };
      await real.applyStatus(Group, { metadata: group, status: { pods, switchoverControl } });
    });
    expect(await run("switchover", ["cache"])).toMatchObject({ status: 0, err: "" });
    endingWatch(() =>
      real.delete(App, app).then(() => real.patch(App, app, { type: "merge", body: { metadata: { finalizers: null } } })),
    );
    expect(await run("tasks", ["cache"], { watch: true })).toMatchObject({ status: 1, err: "App cache was deleted\n" });
  });

  it("switchover and restart are refused while an operation is paused", async () => {
    const { spec: own, metadata } = await client.get(Component, { namespace, name: "cache-redis" });
    const { plugin, runtime } = own;
    const name = "cache-redis-nodes";
    await client.create(Group, {
      metadata: { name, namespace, labels: { ...metadata.labels }, annotations: { [annotations.pauseRequest]: "token" } },
      spec: { componentRef: { name: "cache-redis" }, pluginRef: { name: "redis" }, plugin, runtime, replicas: 2 },
    });
    const pods = [0, 1].map((ordinal) => ({ name: `${name}-${ordinal}`, uid: `uid-${ordinal}`, ready: true }));
    const operation = {
      token: "token",
      scenario: "update" as const,
      phase: "Running" as const,
      startedAt: "2026-01-01T00:00:00Z",
    };
    await client.applyStatus(Group, { metadata: { name, namespace }, status: { pods, operation } });
    const err = "a change is paused halfway: resume or cancel it first\n";
    for (const [command, ...args] of [["switchover"], ["restart"], ["rebuild", `${name}-1`]] as const)
      expect(await run(command, ["cache", ...args])).toMatchObject({ status: 1, out: "", err });
    expect((await client.get(Group, { namespace, name })).metadata.annotations).toEqual({
      [annotations.pauseRequest]: "token",
    });
  });

  it("connect shows the addresses, and the password only on request", async () => {
    expect(await run("connect", ["cache"])).toMatchObject({ status: 1, err: expect.stringContaining("has no Services yet") });
    await client.create(Service, {
      metadata: { name: "cache-redis-nodes-primary", namespace, labels: { [labels.app]: "cache" } },
      spec: { clusterIP: "None", ports: [{ port: 6379 }] },
    });
    const { out } = await run("connect", ["cache"]);
    expect(out).toBe(
      "cache-redis-nodes-primary: cache-redis-nodes-primary.default.svc:6379\npassword: key password of Secret cache-access (--show-password)\n",
    );
    const shown = await run("connect", ["cache"], { output: "json", "show-password": true });
    expect(JSON.parse(shown.out)).toMatchObject({ password: "secret", secret: { name: "cache-access" } });
  });

  it("tasks --watch runs until the plan has finished and exits with its outcome", async () => {
    const watching = run("tasks", ["cache"], { watch: true });
    const component = await client.get(Component, { namespace, name: "cache-redis" });
    const { token = "", scenario = "provision" } = component.spec.operation ?? {};
    const operation = { token, scenario, phase: "Succeeded" as const, startedAt: "2026-01-01T00:00:00Z" };
    await client.applyStatus(Component, {
      metadata: { name: "cache-redis", namespace },
      status: { observedGeneration: component.metadata.generation ?? 0, operation },
    });
    const { status, out } = await watching;
    expect(status).toBe(0);
    expect(out).toMatch(/task-1-01 {2}in_progress[\s\S]*task-1-01 {2}done/);
  });

  it("fails for an App that does not exist", async () => {
    expect(await run("tasks", ["nobody"])).toMatchObject({ status: 1 });
  });
});
