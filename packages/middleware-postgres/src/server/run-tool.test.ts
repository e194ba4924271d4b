import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { runTool } from "./run-tool.ts";

it("rejects only after an aborted tool has ended", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "tool-"));
  const ending = new AbortController();
  // It completes its work when it is asked to end.
  const script = "trap 'sleep 0.2; touch done; exit' TERM; touch ready; while :; do sleep 0.01; done";
  const result = runTool("bash", ["-c", script], { cwd, user: undefined, signal: ending.signal });
  await vi.waitFor(async () => expect(await readdir(cwd)).toContain("ready"), { timeout: 30_000 });
  ending.abort();
  await expect(result).rejects.toThrow(/abort/i);
  expect(await readdir(cwd)).toContain("done");
  await rm(cwd, { recursive: true });
});

it("rejects if a tool cannot be started", async () => {
  await expect(runTool("/no/such/tool", [], { cwd: "/", user: undefined })).rejects.toThrow(/ENOENT/);
});
