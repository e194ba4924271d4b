import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { isJsonObject } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { expect, it } from "vitest";
import { openStore } from "./open-store.ts";

const module = fileURLToPath(new URL("../../dist/storage/open-store.js", import.meta.url));

/** Writes as fast as it can and prints each acknowledged write: `<key> <count> <revision>`. */
const writer = `
  import { openStore } from ${JSON.stringify(module)};
  const store = await openStore({ dir: process.argv[1], clock: { now: () => Date.now(), monotonic: () => performance.now() }, historyEvents: 500 });
  process.stdout.write("open " + store.revision + "\\n");
  const keys = Array.from({ length: 8 }, (_, index) => "g/things/n/" + index);
  await Promise.all(keys.map(async (key) => {
    for (;;) {
      const current = store.get(key);
      const count = (current?.object.data.count ?? 0) + 1;
      const object = { apiVersion: "v1", kind: "Thing", metadata: { name: key }, data: { count, again: count, text: "x".repeat(count % 3000) } };
      const { ok, stored } = await store.write(key, current?.revision ?? 0, object);
      if (ok) process.stdout.write(key + " " + count + " " + stored.revision + "\\n");
    }
  }));
`;

it("loses no acknowledged write, shows no partial one and never goes back, however often it is killed", {
  timeout: 60_000,
}, async () => {
  const dir = mkdtempSync(join(tmpdir(), "keelson-crash-"));
  let child: ChildProcess | undefined;
  try {
    const acknowledged = new Map<string, { count: number; revision: number }>();
    let highest = 1;
    for (let round = 0; round < 8; round++) {
      child = spawn(process.execPath, ["--input-type=module", "-e", writer, dir], { stdio: ["ignore", "pipe", "inherit"] });
      const exited = new Promise((resolve) => child?.once("close", resolve));
      const lines = createInterface({ input: child.stdout ?? process.stdin });
      const stopAfter = 1 + Math.floor(Math.random() * 4_000);
      let count = 0;
      for await (const line of lines) {
        const [key = "", number, revision] = line.split(" ");
        if (key === "open") {
          if (Number(number) < highest) throw new Error(`revision ${number} after ${highest}`);
          continue;
        }
        // The kill may cut off the last line: without a revision it does not count as acknowledged.
        if (revision === undefined) continue;
        acknowledged.set(key, { count: Number(number), revision: Number(revision) });
        highest = Math.max(highest, Number(revision));
        count += 1;
        if (count === stopAfter) child.kill("SIGKILL");
      }
      await exited;
      const store = await openStore({ dir, clock: systemClock });
      try {
        expect(store.revision).toBeGreaterThanOrEqual(highest);
        for (const [key, { count: least }] of acknowledged) {
          const stored = store.get(key);
          const data: unknown = Reflect.get(stored?.object ?? {}, "data");
          if (!isJsonObject(data)) throw new Error(`${key} is lost`);
          expect(data["count"]).toBeGreaterThanOrEqual(least);
          expect(data["again"]).toBe(data["count"]);
          expect(stored?.object.metadata.resourceVersion).toBe(String(stored?.revision));
        }
        // The log and the objects agree: a replay ends in the stored state.
        const replayed = new Map<string, number>();
        const from = Math.max(store.revision - 400, 1);
        store
          .watch("g/things/", from, (events) => {
            for (const { object, revision } of events) replayed.set(object.key, revision);
          })
          .close();
        for (const [key, revision] of replayed) expect(store.get(key)?.revision).toBe(revision);
        expect(replayed.size).toBeGreaterThan(0);
      } finally {
        await store.close();
      }
    }
    expect(acknowledged.size).toBe(8);
  } finally {
    child?.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  }
});
