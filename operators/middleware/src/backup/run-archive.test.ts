import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { expect, it } from "vitest";
import { BackupError } from "./backup-error.ts";
import { LogStore } from "./log-store.ts";
import { runArchive } from "./run-archive.ts";
import type { SnapshotClient } from "./snapshot-client.ts";
import { VolumeStore } from "./volume-store.ts";

/** An agent with a log of three files. It deletes nothing before it was confirmed. */
class Agent {
  confirmed = 0;
  readonly missing: (string | undefined)[] = [];
  readonly client = {
    readLog: (skipMissing: boolean) => this.#read(skipMissing),
    confirmLog: (cursor: string, missing?: string) => {
      this.missing.push(missing);
      this.confirmed = Number(cursor);
      if (this.confirmed === this.#length) this.#ending.abort();
      return Promise.resolve();
    },
    close: () => undefined,
  } as unknown as SnapshotClient;
  readonly #length = 3;
  readonly #ending: AbortController;
  readonly #isLost: (at: number) => boolean;

  constructor(ending: AbortController, isLost: (at: number) => boolean = () => false) {
    this.#ending = ending;
    this.#isLost = isLost;
  }

  #read(skipMissing: boolean) {
    const at = this.confirmed + 1;
    if (at > this.#length) return new Promise<never>(() => undefined);
    if (!this.#isLost(at)) return Promise.resolve(fileOf(at));
    if (!skipMissing) return Promise.reject(new BackupError("Damaged", `file-${at} no longer exists`));
    return Promise.resolve(fileOf(at + 1));
  }
}

const fileOf = (at: number) => ({
  name: `file-${at}`,
  cursor: String(at),
  data: (async function* () {
    yield Buffer.from(`content ${at}`);
  })(),
});

async function archived(agent: Agent, ending: AbortController, failuresAt: readonly string[] = []) {
  const root = await mkdtemp(join(tmpdir(), "archive-"));
  const store = new VolumeStore(root);
  const failures = new Set(failuresAt);
  const messages: string[] = [];
  let now = 0;
  const running = runArchive({
    async openStore() {
      const opened = await LogStore.open({ store, folder: "log", encryptionKey: undefined, randomBytes: Buffer.alloc });
      const put = opened.put.bind(opened);
      opened.put = async (name, data) => {
        // Once before and once after it was stored.
        if (failures.delete(`before ${name}`)) throw new BackupError("Storage", "the volume is full");
        await put(name, data);
        if (failures.delete(`after ${name}`)) throw new BackupError("Storage", "the Pod was killed");
      };
      return opened;
    },
    connect: () => agent.client,
    clock: { ...systemClock, monotonic: () => now++, setTimer: (_, act) => systemClock.setTimer(0, act) },
    onMessage: (message) => messages.push(message),
    signal: ending.signal,
  });
  await new Promise<void>((resolve) => ending.signal.addEventListener("abort", () => resolve(), { once: true }));
  const { names } = await LogStore.open({ store, folder: "log", encryptionKey: undefined, randomBytes: Buffer.alloc });
  await rm(root, { recursive: true });
  void running;
  return { names: [...names].toSorted(), messages };
}

it("confirms a file only after it was stored, and continues after failures before and after that", async () => {
  const ending = new AbortController();
  const agent = new Agent(ending);
  const { names, messages } = await archived(agent, ending, ["before file-1", "after file-2"]);
  expect(names).toEqual(["file-1", "file-2", "file-3"]);
  expect(agent.confirmed).toBe(3);
  expect(messages.filter((message) => message.includes("retrying"))).toEqual([
    "the volume is full; retrying in 1 s",
    "the Pod was killed; retrying in 1 s",
  ]);
});

it("skips log that was lost, and tells the agent which file follows it", async () => {
  const ending = new AbortController();
  const agent = new Agent(ending, (at) => at === 2);
  const { names } = await archived(agent, ending);
  expect(names).toEqual(["file-1", "file-3"]);
  expect(agent.missing).toEqual([undefined, "file-3"]);
});
