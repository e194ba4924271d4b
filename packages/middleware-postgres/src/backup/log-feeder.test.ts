import { mkdtemp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { ServerFiles } from "../server/server-files.ts";
import { LogFeeder } from "./log-feeder.ts";

const [first, second, last] = ["000000010000000000000004", "000000010000000000000005", "000000010000000000000006"];
let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "feeder-"));
  await mkdir(join(home, "log"));
});
afterEach(() => rm(home, { recursive: true, force: true }));

const inLog = (name: string): string => join(home, "log", name);
const files = {
  path: (name: string) => join(home, name),
  own: () => Promise.resolve(),
  home: tmpdir(),
} as unknown as ServerFiles;
const source = (names: readonly string[]) => ({
  names: new Set(names),
  async *read(name: string) {
    yield Buffer.from(`content of ${name}`);
  },
});
const text = (name: string): Promise<string> => readFile(inLog(name), "utf8");
/** As the restore command does. */
const ask = (name: string): Promise<void> => writeFile(inLog(`${name}.wanted`), "");

it("gives a segment whenever it is wanted, says which are missing, and finds a gap before later ones", async () => {
  const feeder = new LogFeeder(files, source([first, last]), systemClock);
  const running = feeder.run();
  for (const _ of [1, 2]) {
    await ask(first);
    await vi.waitFor(async () => expect(await text(first)).toBe(`content of ${first}`), { timeout: 30_000 });
    await rename(inLog(first), join(home, "used"));
  }
  await ask(second);
  await vi.waitFor(async () => expect(await text(`${second}.missing`)).toBe(""), { timeout: 30_000 });
  expect([feeder.gapOf(1), feeder.gapOf(2)]).toEqual([second, undefined]);
  feeder.stop();
  await running;
});

it("ends the server before its log fills the volume of the running one", async () => {
  const feeder = new LogFeeder(files, source([first]), systemClock, () => Promise.resolve(1_000));
  const rejected = expect(feeder.run()).rejects.toThrow(/the volume has 1000 free bytes/);
  await ask(first);
  await rejected;
  expect(await text("failed")).toBe("");
});

it("ends the server if a segment cannot be read", async () => {
  const log = {
    names: new Set([first]),
    async *read() {
      yield Buffer.from("half");
      throw new Error("damaged");
    },
  };
  const rejected = expect(new LogFeeder(files, log, systemClock).run()).rejects.toThrow("damaged");
  await ask(first);
  await rejected;
  expect(await text("failed")).toBe("");
});
