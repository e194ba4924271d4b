import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lockFolder } from "./folder-lock.ts";

function inFolder<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "keelson-files-"));
  const clean = (): void => rmSync(folder, { recursive: true, force: true });
  const result = use(folder);
  if (result instanceof Promise) return result.finally(clean) as T;
  clean();
  return result;
}

test("lets exactly one contender take the lock of a dead holder, and the next after a release", async () => {
  await inFolder(async (folder) => {
    writeFileSync(join(folder, ".lock-4"), JSON.stringify({ pid: process.pid, startTime: 1, bootId: "x" }));
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => lockFolder(folder, Math.random)));
    const won = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    expect(won).toHaveLength(1);
    const refused = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
    expect(refused).toMatchObject(Array.from({ length: 7 }, () => ({ code: "FolderInUse" })));
    await won[0]?.release();
    await (await lockFolder(folder, Math.random)).release();
  });
});
