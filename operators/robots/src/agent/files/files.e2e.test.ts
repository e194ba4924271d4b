import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { tarArchive } from "@keelson/execution/testing";
import { startBroker } from "../../broker/broker.ts";
import type { AgentOptions, RunningAgent } from "../../commands/start-agent.ts";
import { type RecordingServer, startRecordingServer } from "../../testing/recording-server.ts";
import { startAgent } from "../agent.ts";
import type { AgentDependencies } from "../agent-dependencies.ts";
import { defaultRobotPolicy } from "../policy/robot-policy.ts";

const robotId = "robot-1";
const token = "join-me";
let base: string;
let workDir: string;
let url: string;
let server: RecordingServer;
const cleanups: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-agent-")));
  workDir = join(base, "tasks");
  const broker = await startBroker({ port: 0, joinToken: token, log: silentLogger });
  cleanups.push(() => broker.stop());
  url = broker.url;
  server = await startRecordingServer(broker, robotId, { acknowledges: true });
  cleanups.push(() => server.leave());
});

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  rmSync(base, { recursive: true, force: true });
});

async function agent(extras: AgentDependencies & Partial<Pick<AgentOptions, "policy">> = {}): Promise<RunningAgent> {
  const options = { robotId, token, workDir, heartbeatIntervalMs: 30_000, clock: systemClock, log: silentLogger };
  const started = await startAgent({ brokerUrl: url, labels: { bay: "7" }, stopTasksOnExit: false, ...options, ...extras });
  cleanups.push(() => started.stop());
  return started;
}

async function serve(listener: RequestListener): Promise<string> {
  const http = createServer(listener);
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  cleanups.push(async () => {
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
}

const shell = (script: string, more: object = {}): object => ({
  name: "t",
  driver: "exec",
  config: { execConfig: { command: "/bin/sh", args: ["-c", script] } },
  ...more,
});
const file = (name: string): string => join(base, name);
const artifactOf = (source: string, content: Uint8Array, more: object = {}): object => ({
  getterSource: source,
  getterOptions: { checksum: `sha256:${createHash("sha256").update(content).digest("hex")}` },
  ...more,
});
const ended = (uid: string) =>
  server.status(({ taskUid, state }) => taskUid === uid && (state === "failed" || state === "completed"));

test("a task runs with its artifacts and templates in place", async () => {
  const archive = tarArchive({ path: "run.sh", content: "cat local/map; cat conf/app.ini", mode: 0o755 });
  const origin = await serve(({ url: path }, response) => response.end(path === "/map" ? "map " : archive));
  await agent();
  await server.registered(1);
  const uid = randomUUID();
  await server.send("create", uid, 1, {
    ...shell("sh local/run.sh", { env: { MODE: "fast" } }),
    artifacts: [artifactOf(`${origin}/x.tar`, archive), artifactOf(`${origin}/map`, Buffer.from("map "))],
    templates: [{ embeddedTmpl: '{{ env "MODE" }} {{ label "bay" }}', destPath: "conf/app.ini" }],
  });
  expect(await ended(uid)).toMatchObject({ state: "completed", logsStdout: "map fast 7" });
  expect(server.statuses.map(({ state, event }) => [state, event])).toEqual([
    ["dispatching", "Downloading"],
    ["running", "Started"],
    ["completed", "Completed"],
  ]);
});

test("an artifact that cannot be fetched or is forbidden fails the task with the reason", async () => {
  const origin = await serve((_, response) => response.writeHead(404).end());
  await agent({ policy: { ...defaultRobotPolicy, artifacts: { ...defaultRobotPolicy.artifacts, sources: [`${origin}/`] } } });
  await server.registered(1);
  const [missing, forbidden] = [randomUUID(), randomUUID()];
  const run = shell(`touch ${file("ran")}`);
  await server.send("create", missing, 1, { ...run, artifacts: [artifactOf(`${origin}/x`, Buffer.from(""))] });
  expect(await ended(missing)).toMatchObject({
    ...{ state: "failed", event: "DownloadFailed" },
    message: `Task failed: spec.artifacts[0]: ${origin}/x: the server answered 404`,
  });
  await server.send("create", forbidden, 1, { ...run, artifacts: [artifactOf("http://127.0.0.9/x", Buffer.from(""))] });
  expect(await ended(forbidden)).toMatchObject({ permanent: true, message: expect.stringContaining("is not allowed") });
  expect(existsSync(file("ran"))).toBe(false);
});

test("a task that is deleted while it downloads leaves nothing, and other tasks do not wait for it", async () => {
  let requested: () => void = () => {};
  const request = new Promise<void>((resolve) => {
    requested = resolve;
  });
  const origin = await serve((_, response) => {
    response.writeHead(200, { "content-length": 100 });
    response.write("x");
    requested();
  });
  await agent();
  await server.registered(1);
  const [slow, other] = [randomUUID(), randomUUID()];
  const artifact = artifactOf(`${origin}/x`, Buffer.from("x"));
  await server.send("create", slow, 1, { ...shell(`touch ${file("ran")}`), artifacts: [artifact] });
  await request;
  await server.send("create", other, 1, shell("true"));
  await ended(other);
  await server.send("delete", slow, 1);
  await server.status(({ taskUid, state }) => taskUid === slow && state === "deleted");
  expect(readdirSync(workDir).sort()).toEqual([".agent", other].sort());
  expect(existsSync(file("ran"))).toBe(false);
});

test("the next agent continues a download and starts the program once", async () => {
  const content = Buffer.from("0123456789");
  const ranges: (string | undefined)[] = [];
  const origin = await serve(({ headers }, response) => {
    ranges.push(headers.range);
    if (headers.range === undefined) {
      response.writeHead(200, { "content-length": 10 });
      response.write(content.subarray(0, 4));
    } else {
      response.writeHead(206, { "content-length": 6, "content-range": "bytes 4-9/10" });
      response.end(content.subarray(4));
    }
  });
  const first = await agent();
  await server.registered(1);
  const uid = randomUUID();
  await server.send("create", uid, 1, {
    ...shell(`cat local/x; echo ran >> ${file("ran")}`),
    artifacts: [artifactOf(`${origin}/x`, content)],
  });
  const partial = join(workDir, ".agent", "artifacts", "partial");
  const received = (): number =>
    existsSync(partial) ? readdirSync(partial).reduce((sum, name) => sum + readFileSync(join(partial, name)).length, 0) : 0;
  await expect.poll(received).toBe(4);
  await first.stop();
  await agent();
  expect(await ended(uid)).toMatchObject({ state: "completed", logsStdout: "0123456789" });
  expect(ranges).toEqual([undefined, "bytes=4-"]);
  expect(readFileSync(file("ran"), "utf8")).toBe("ran\n");
});

test("a changed label renders templates again and signals or restarts the program, also under the next agent", async () => {
  const first = await agent();
  await server.registered(1);
  const template = { embeddedTmpl: 'bay={{ label "bay" }}', destPath: "app.ini" };
  const [signalled, restarted] = [randomUUID(), randomUUID()];
  const loop = "while :; do sleep 0.05; done";
  await server.send("create", signalled, 1, {
    ...shell(`trap 'cat app.ini >> ${file("signalled")}; echo >> ${file("signalled")}' HUP; touch ${file("ready")}; ${loop}`),
    templates: [{ ...template, changeMode: "signal", changeSignal: "SIGHUP" }],
  });
  await server.send("create", restarted, 1, {
    ...shell(`cat app.ini >> ${file("restarted")}; echo >> ${file("restarted")}; ${loop}`),
    templates: [template],
  });
  const lines = (name: string) => (existsSync(file(name)) ? readFileSync(file(name), "utf8").trim().split("\n") : []);
  await expect.poll(() => [existsSync(file("ready")), lines("restarted")]).toEqual([true, ["bay=7"]]);
  await server.label({ bay: "8" });
  await expect.poll(() => [lines("signalled"), lines("restarted")]).toEqual([["bay=8"], ["bay=7", "bay=8"]]);
  await first.stop();
  await agent();
  await server.registered(2);
  await server.label({ bay: "9" });
  await expect
    .poll(() => [lines("signalled"), lines("restarted")])
    .toEqual([
      ["bay=8", "bay=9"],
      ["bay=7", "bay=8", "bay=9"],
    ]);
  // A report is repeated until its agent knows that it is stored.
  const eventsOf = (uid: string) => [
    ...new Map(server.statuses.filter(({ taskUid }) => taskUid === uid).map(({ seq, event }) => [seq, event])).values(),
  ];
  await expect.poll(() => eventsOf(signalled)).toEqual(["Started"]);
  await expect.poll(() => eventsOf(restarted)).toEqual(["Started", "Restarting", "Started", "Restarting", "Started"]);
  for (const uid of [signalled, restarted]) {
    await server.send("delete", uid, 1);
    await server.status(({ taskUid, state }) => taskUid === uid && state === "deleted");
  }
});
