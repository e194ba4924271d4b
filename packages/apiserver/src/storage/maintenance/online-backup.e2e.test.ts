import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { systemClock } from "@keelson/api-machinery/time";
import { expect, it } from "vitest";
import { openStore } from "../open-store.ts";
import { backupStorage } from "./backup.ts";
import { restoreStorage } from "./restore.ts";
import { verifyStorage } from "./verify.ts";

const module = fileURLToPath(new URL("../../../dist/storage/open-store.js", import.meta.url));

/** Writes as fast as it can; each commit puts the same number into both objects. */
const writer = `
  import { openStore } from ${JSON.stringify(module)};
  const clock = { now: () => Date.now(), monotonic: () => performance.now() };
  const store = await openStore({ dir: process.argv[1], clock, sync: false, historyEvents: 200 });
  process.stdout.write("open\\n");
  for (let count = 1; ; count++) {
    await Promise.all(["a", "b"].map((name) => store.write("g/things/n/" + name, store.get("g/things/n/" + name)?.revision ?? 0, {
      apiVersion: "v1", kind: "Thing", metadata: { name }, data: { count, text: "x".repeat(count % 5000) },
    })));
  }
`;

it("copies exactly one revision while another process writes", { timeout: 120_000 }, async () => {
  const root = mkdtempSync(join(tmpdir(), "keelson-backup-"));
  const dir = join(root, "storage");
  const child = spawn(process.execPath, ["--input-type=module", "-e", writer, dir], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.once("close", resolve));
  try {
    for await (const line of createInterface({ input: child.stdout })) if (line === "open") break;
    let last = 0;
    for (let round = 0; round < 25; round++) {
      const file = join(root, `backup-${round}`);
      const { revision } = await backupStorage(dir, file);
      expect(revision).toBeGreaterThanOrEqual(last);
      last = revision;
      expect(await verifyStorage(dir)).toMatchObject({ isHealthy: true, owner: child.pid });
      const target = join(root, `target-${round}`);
      await restoreStorage(target, file);
      const store = await openStore({ dir: target, clock: systemClock });
      const { items } = store.list("g/things/");
      const states = items.map(({ object }) => JSON.stringify(Reflect.get(object, "data")));
      expect(new Set(states).size).toBeLessThanOrEqual(1);
      if (items.length > 0) expect(Math.max(...items.map((item) => item.revision))).toBe(revision);
      await store.close();
    }
    expect(last).toBeGreaterThan(100);
  } finally {
    child.kill("SIGKILL");
    await exited;
    rmSync(root, { recursive: true, force: true });
  }
});
