import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "@keelson/client";
import { expect, test } from "vitest";
import { startApiServerProcess } from "../testing/api-server-process.ts";
import { counted } from "../testing/crash-writers.ts";
import { startKeelson } from "../testing/keelson-process.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/** Runs `keelson storage ARGS -o json` and returns its exit status and what it printed. */
async function storage(
  dir: string,
  ...args: readonly string[]
): Promise<{ status: number | NodeJS.Signals; result: unknown; text: string }> {
  const run = startKeelson(["storage", ...args, "--data-dir", dir, "-o", "json"]);
  const status = await run.exited;
  const text = run.output();
  return { status, text, result: text.startsWith("{") ? JSON.parse(text) : undefined };
}

async function create(dir: string, names: readonly string[]): Promise<void> {
  const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
  for (const name of names) {
    const data = { count: "0", again: "0", text: "x".repeat(300), from: "0" };
    await client.create(counted, { metadata: { namespace: "default", name }, data });
  }
  await client.close();
}

async function listNames(dir: string): Promise<readonly string[]> {
  const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
  const { items } = await client.list(counted, { namespace: "default" });
  await client.close();
  return items.map(({ metadata }) => metadata.name ?? "");
}

test("a damaged data directory is named, repaired and restored by keelson storage", { timeout: 120_000 }, async () => {
  using folder = temporaryFolder();
  const dir = join(folder.path, "data");
  mkdirSync(dir);
  const names = Array.from({ length: 20 }, (_, index) => `c${String(index).padStart(2, "0")}`);
  const file = join(folder.path, "backup");
  {
    await using server = await startApiServerProcess(dir);
    await create(dir, names.slice(0, 10));
    const saved = await storage(dir, "backup", file);
    expect(saved).toMatchObject({ status: 0, result: { file } });
    expect(await storage(dir, "verify")).toMatchObject({ status: 0, result: { isHealthy: true, owner: server.child.pid } });
    expect(await storage(dir, "repair")).toMatchObject({ status: 1, text: expect.stringContaining("is in use by process") });
    await create(dir, names.slice(10));
    server.child.kill("SIGKILL");
    await server.exited;
  }
  const journal = join(dir, "storage", "journal-0");
  const content = readFileSync(journal);
  const at = content.indexOf('"name":"c15"');
  content[at] = (content[at] ?? 0) ^ 0xff;
  writeFileSync(journal, content);

  await expect(startApiServerProcess(dir)).rejects.toThrow(/journal-0 at offset \d+: revisions \d+ to \d+ are missing/);
  const verified = await storage(dir, "verify");
  expect(verified).toMatchObject({ status: 3, result: { isHealthy: false, faults: [{ file: "journal-0" }] } });
  const repaired = await storage(dir, "repair");
  expect(repaired).toMatchObject({ status: 3, result: { isRepaired: true, replaced: join(dir, "storage.replaced") } });
  {
    await using server = await startApiServerProcess(dir);
    expect(await listNames(dir)).toEqual(names.filter((name) => name !== "c15"));
    await server.stop();
  }
  expect(await storage(dir, "restore", file)).toMatchObject({ status: 1, text: expect.stringContaining("--force") });
  expect(await storage(dir, "restore", file, "--force")).toMatchObject({ status: 0 });
  expect(await storage(dir, "compact")).toMatchObject({ status: 0 });
  {
    await using server = await startApiServerProcess(dir);
    expect(await listNames(dir)).toEqual(names.slice(0, 10));
    server.child.kill("SIGKILL");
  }
  expect(await storage(join(folder.path, "missing"), "verify")).toMatchObject({
    status: 1,
    text: expect.stringContaining("check --data-dir"),
  });
});
