import { join } from "node:path";
import { createSeededRandom, type RandomSource } from "@keelson/apiserver";
import { type Client, connect, isTransportError } from "@keelson/client";
import { expect, test } from "vitest";
import { startApiServerProcess } from "../testing/api-server-process.ts";
import {
  counted,
  type Follower,
  follow,
  type Ledger,
  namespace,
  settleLedger,
  sharedName,
  stateOf,
  untilGone,
  writeOwn,
  writeShared,
} from "../testing/crash-writers.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/** Number of kills across all lanes. */
const kills = Number(process.env["KEELSON_CRASH_KILLS"] ?? 100);
/** Servers that are killed in parallel, each with its own directory, writers and watchers. */
const lanes = 2;
const writers = 6;
/** A short history, so that some watches get 410. */
const historyEvents = 150;

interface Lane {
  readonly dir: string;
  readonly random: RandomSource;
  readonly ledger: Ledger;
  readonly follower: Follower;
  /** The follower's state at the end of each run; late watchers start there. */
  readonly past: Follower[];
  resumed: number;
  expired: number;
}

/** One run of the server: checks what it kept, writes to it and kills it. */
async function live(lane: Lane): Promise<void> {
  const { dir, random, ledger, follower, past } = lane;
  await using server = await startApiServerProcess(dir, { historyEvents });
  const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
  try {
    if (past.length === 0) await begin(client);
    const list = await client.list(counted, { namespace });
    const found = new Map(list.items.map((item) => [item.metadata.name ?? "", stateOf(item)]));
    const revision = Number(list.metadata.resourceVersion);
    settleLedger(ledger, found, revision);
    if (past.length === 0) {
      follower.revision = revision;
      for (const [name, { count, revision: of }] of found) follower.states.set(name, { count, revision: of });
    }
    if (revision < follower.revision) throw new Error(`a watch saw ${follower.revision}, which is after ${revision}`);
    const late = past[Math.max(past.length - 1 - random.below(8), 0)];
    past.push({ revision: follower.revision, states: new Map(follower.states) });
    // Every resumed watch reaches this write, and by then has seen the state of the list.
    await writeShared(client, ledger);
    const goal = ledger.shared?.revision ?? 0;
    const expected = new Map([...found].map(([name, state]) => [name, state.revision])).set(sharedName, goal);
    const check = (reached: Follower): void => {
      const states = new Map([...reached.states].map(([name, state]) => [name, state.revision]));
      expect(Object.fromEntries(states)).toEqual(Object.fromEntries(expected));
    };
    if (late !== undefined) {
      const copy = { revision: late.revision, states: new Map(late.states) };
      const isWhole = await followTo(client, copy, goal);
      if (isWhole) check(copy);
      lane[isWhole ? "resumed" : "expired"] += 1;
    }
    if (await followTo(client, follower, goal)) check(follower);
    else {
      // The history may no longer reach back to its revision. Like any client, it lists again.
      lane.expired += 1;
      follower.states.clear();
      follower.revision = goal;
      for (const [name, state] of found) follower.states.set(name, state);
      follower.states.set(sharedName, { revision: goal, count: ledger.shared?.count ?? 0 });
    }

    const stopAfter = 1 + random.below(250);
    const delayMs = random.below(5);
    let written = 0;
    const count = async (write: () => Promise<void>): Promise<void> => {
      await write();
      written += 1;
      if (written === stopAfter) setTimeout(() => server.child.kill("SIGKILL"), delayMs);
    };
    const names = (writer: number): string[] => [0, 1, 2].map((index) => `own-${writer}-${index}`);
    await Promise.all([
      followOn(client, follower),
      ...Array.from({ length: writers }, (_, writer) => {
        const own = names(writer);
        return untilGone(() =>
          count(() => {
            const name = own[random.below(own.length + 1)];
            return name === undefined ? writeShared(client, ledger) : writeOwn(client, ledger, name, random);
          }),
        );
      }),
    ]);
    expect(await server.exited).toBe("SIGKILL");
  } finally {
    server.child.kill("SIGKILL");
    await client.close();
  }
}

async function begin(client: Client): Promise<void> {
  const namespaces = { group: "", version: "v1", kind: "Namespace", plural: "namespaces", scope: "Cluster" } as const;
  await client.create(namespaces, { metadata: { name: namespace } });
  await client.create(counted, {
    metadata: { namespace, name: sharedName },
    data: { count: "0", again: "0", text: "", from: "0" },
  });
}

/** Watches from the follower's revision to `goal`. Resolves to false if the revision is compacted (410). */
async function followTo(client: Client, follower: Follower, goal: number): Promise<boolean> {
  if (follower.revision === goal) return true;
  // A missing event fails the test after this time.
  const resourceVersion = String(follower.revision);
  const watch = await client.watch(counted, { namespace, resourceVersion, timeoutSeconds: 60 });
  for await (const event of watch) {
    if (event.type === "ERROR" && "code" in event.object && event.object.code === 410) return false;
    follow(follower, event);
    if (follower.revision >= goal) return true;
  }
  throw new Error(`the watch ended at ${follower.revision}, before ${goal}`);
}

/** Watches until the connection fails. */
async function followOn(client: Client, follower: Follower): Promise<void> {
  try {
    const watch = await client.watch(counted, { namespace, resourceVersion: String(follower.revision) });
    for await (const event of watch) follow(follower, event);
  } catch (error) {
    if (!isTransportError(error)) throw error;
  }
}

test(`killed ${kills} times under writers and watchers, the API server loses no acknowledged write, shows no partial one, never goes back, and resumes watches completely or answers 410`, {
  timeout: 600_000,
}, async () => {
  const seed = Number(process.env["KEELSON_CRASH_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  const totals = { resumed: 0, expired: 0 };
  await Promise.all(
    Array.from({ length: lanes }, async (_, index) => {
      using folder = temporaryFolder();
      const lane: Lane = {
        dir: folder.path,
        random: createSeededRandom(seed + index),
        ledger: { own: new Map(), shared: undefined, revision: 0 },
        follower: { states: new Map(), revision: 0 },
        past: [],
        resumed: 0,
        expired: 0,
      };
      for (let life = 0; life < kills / lanes; life++) {
        try {
          await live(lane);
        } catch (error) {
          const reason = error instanceof Error ? error.message : String(error);
          throw new Error(`KEELSON_CRASH_SEED=${seed}, server ${index}, life ${life}: ${reason}`, { cause: error });
        }
      }
      totals.resumed += lane.resumed;
      totals.expired += lane.expired;
    }),
  );
  expect(totals.resumed).toBeGreaterThan(0);
  expect(totals.expired).toBeGreaterThan(0);
});
