import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { endLeftovers } from "./leftovers.ts";

it("removes the lock of a server that has ended, whose process id another process has", async () => {
  const folder = await mkdtemp(join(tmpdir(), "pg-lock-"));
  try {
    await writeFile(join(folder, "postmaster.pid"), `${process.pid}\n`);
    await endLeftovers(folder, folder, [], { clock: systemClock, log: silentLogger });
    expect(await readdir(folder)).toEqual([]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
