import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { RdbCheck } from "./rdb-check.ts";

/** A program that checks snapshots if it has the checker's name, and a directory for its link. */
function checker() {
  const dir = mkdtempSync(join(tmpdir(), "rdb-check-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const program = join(dir, "redis-server");
  const script = `#!/bin/sh
case $0 in
*/redis-check-rdb) read -r count <"$1"; echo "[info] $count keys read"; echo "RDB looks OK!" ;;
esac
`;
  writeFileSync(program, script);
  chmodSync(program, 0o755);
  return { program, folder: join(dir, "volume/links") };
}

async function check(program: string, folder: string): Promise<unknown> {
  const running = new RdbCheck(program, folder);
  await running.write(Buffer.from("3\n"));
  return running.end();
}

it("starts the server under the name of the checker, by one link that stays", async () => {
  const { program, folder } = checker();
  const results = await Promise.all([check(program, folder), check(program, folder)]);
  expect(results).toEqual([1, 2].map(() => ({ ok: true, keys: 3, expiringKeys: 0 })));
  expect(await check(program, folder)).toMatchObject({ ok: true });
  expect(readdirSync(folder)).toEqual(["redis-check-rdb"]);
});

it("replaces links that an agent has left", async () => {
  const { program, folder } = checker();
  mkdirSync(folder, { recursive: true });
  for (const name of ["redis-check-rdb", `redis-check-rdb-${process.pid}`]) symlinkSync("/nowhere", join(folder, name));
  expect(await check(program, folder)).toMatchObject({ ok: true });
  expect(readdirSync(folder)).toEqual(["redis-check-rdb"]);
});

it("names the reason if the link cannot be created", () => {
  const { program, folder } = checker();
  expect(() => new RdbCheck(program, join(program, folder))).toThrow(/could not start the checker: .*ENOTDIR/);
  expect(() => new RdbCheck("no-such-server", folder)).toThrow("no-such-server not found in PATH");
});
