import { join } from "node:path";
import { createSeededRandom, type RandomSource } from "@keelson/apiserver";
import { type Client, connect, isTransportError } from "@keelson/client";
import { expect, test } from "vitest";
import { startApiServerProcess } from "./testing/api-server-process.ts";
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
} from "./testing/crash-writers.ts";
import { temporaryFolder } from "./testing/temporary-folder.ts";

/** How often a server is killed, all lanes together. */
const kills = Number(process.env["KEELSON_CRASH_KILLS"] ?? 100);
/** Servers that are killed side by side, each with a folder, writers and watchers of its own. */
const lanes = 2;
const writers = 6;
/** Few, so that some watches find that their revision is forgotten. */
const historyEvents = 150;

interface Lane {
  readonly dir: string;
  readonly random: RandomSource;
  readonly ledger: Ledger;
  readonly follower: Follower;
  /** The follower as it was when each life ended: late watchers begin there. */
  readonly past: Follower[];
  resumed: number;
  expired: number;
}

/** One life of the server: what it kept is looked at, then it is written to and killed. */
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
    // Whatever a watch resumes from, it comes to this write, and by then has seen what the list shows.
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
      // Writes nobody acknowledged may have filled the history: as a client does, it lists anew.
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

/** Follows from what the follower has seen to `goal`. False when the server says that it is forgotten (410). */
async function followTo(client: Client, follower: Follower, goal: number): Promise<boolean> {
  if (follower.revision === goal) return true;
  // What does not come by then never will.
  const resourceVersion = String(follower.revision);
  const watch = await client.watch(counted, { namespace, resourceVersion, timeoutSeconds: 60 });
  for await (const event of watch) {
    if (event.type === "ERROR" && "code" in event.object && event.object.code === 410) return false;
    follow(follower, event);
    if (follower.revision >= goal) return true;
  }
  throw new Error(`the watch ended at ${follower.revision}, before ${goal}`);
}

/** Follows until the server is gone. */
async function followOn(client: Client, follower: Follower): Promise<void> {
  try {
    const watch = await client.watch(counted, { namespace, resourceVersion: String(follower.revision) });
    for await (const event of watch) follow(follower, event);
  } catch (error) {
    if (!isTransportError(error)) throw error;
  }
}

test(`killed ${kills} times under writers and watchers, the API server loses no acknowledged write, shows no half of one, never goes back, and its watches resume whole or are told 410`, {
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
