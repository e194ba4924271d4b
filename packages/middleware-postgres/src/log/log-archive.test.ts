import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { EngineOptions } from "@keelson/middleware-agent";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { PeerAccess } from "../server/peer-connection.ts";
import { ServerFiles } from "../server/server-files.ts";
import { LogArchive, type ArchivingServer } from "./log-archive.ts";
import { nameOf } from "./log-position.ts";

const host = "10.0.0.1";
let dataDir: string;
let archive: LogArchive;
/** Commands of the running server. */
let commands: (string | undefined)[];
let parameters: Record<string, string>;
let current: number;
let failure: Error | undefined;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "archive-"));
  [commands, parameters, current, failure] = [[], {}, 5, undefined];
  await mkdir(join(dataDir, "postgres/data/pg_wal"), { recursive: true });
  archive = await start();
});
afterEach(async () => {
  archive.end();
  await rm(dataDir, { recursive: true, force: true });
});

async function start(): Promise<LogArchive> {
  const log = { warn: () => undefined, info: () => undefined };
  const engine = { clock: createVirtualClock(), host, dataDir, log, flags: {}, program: "postgres" };
  const files = new ServerFiles(engine as unknown as EngineOptions);
  const server = {
    files,
    isRunning: true,
    get parameters() {
      return parameters;
    },
    connection: { one: () => Promise.resolve({ standby: "false", name: nameOf({ timeline: 1, number: current }) }) },
    setArchiveCommand(command: string | undefined) {
      if (failure !== undefined) return Promise.reject(failure);
      commands.push(command);
      return Promise.resolve();
    },
  };
  const next = new LogArchive({
    engine: engine as unknown as EngineOptions & PeerAccess,
    server: server as unknown as ArchivingServer,
    synchronous: { learn: () => undefined },
    primaryHost: () => host,
  });
  await next.load();
  return next;
}

const inLog = (number: number): string => join(dataDir, "postgres/data/pg_wal", nameOf({ timeline: 1, number }));
const stateFile = (): string => join(dataDir, "postgres/archive.json");

it("does not claim to archive its log before its state is stored and the server has the command, and tries both again", async () => {
  await mkdir(`${stateFile()}.new`);
  await expect(archive.setArchive(true)).rejects.toThrow();
  expect(archive.info).toEqual({ logArchive: "false" });
  await rm(`${stateFile()}.new`, { recursive: true });
  failure = new Error("the server does not respond");
  await expect(archive.setArchive(true)).rejects.toThrow("does not respond");
  failure = undefined;
  commands = [];
  expect(await archive.setArchive(true)).toEqual({ ok: true });
  expect(commands).toEqual([expect.stringContaining("/archived/%f")]);
  expect(JSON.parse(await readFile(stateFile(), "utf8"))).toMatchObject({ isEnabled: true });
});

it("does not confirm a file if that cannot be stored", async () => {
  await archive.setArchive(true);
  await mkdir(`${stateFile()}.new`);
  await expect(archive.confirm(JSON.stringify({ segments: { 1: 4 }, histories: [] }))).rejects.toThrow();
  expect(archive.info).not.toHaveProperty("logArchived");
});

it("does not archive its log once a parameter of the App replaces the command", async () => {
  await archive.setArchive(true);
  parameters = { Archive_Command: "true" };
  expect(archive.info).toEqual({ logArchive: "false" });
  expect(await archive.setArchive(true)).toMatchObject({ ok: false });
});

it("reports log that was lost while the archive was ended, and none if all of it still exists", async () => {
  for (const number of [3, 4, 5]) await writeFile(inLog(number), "");
  await archive.setArchive(true);
  await archive.confirm(JSON.stringify({ segments: { 1: 3 }, histories: [] }));
  for (const enabled of [false, true]) await archive.setArchive(enabled);
  // It begins again with the oldest file.
  expect((await archive.next()).name).toBe(nameOf({ timeline: 1, number: 3 }));

  await archive.confirm(JSON.stringify({ segments: { 1: 4 }, histories: [] }));
  await archive.setArchive(false);
  for (const number of [3, 4, 5]) await rm(inLog(number));
  for (const number of [7, 8]) await writeFile(inLog(number), "");
  current = 8;
  archive.end();
  archive = await start();
  await archive.setArchive(true);
  await expect(archive.next()).rejects.toMatchObject({ code: "LogMissing" });
  const { name, cursor } = await archive.next({ skipMissing: true });
  expect(name).toBe(nameOf({ timeline: 1, number: 7 }));
  await archive.confirm(cursor, name);
  expect(archive.info).toMatchObject({ logMissing: name, logArchived: name });
});
