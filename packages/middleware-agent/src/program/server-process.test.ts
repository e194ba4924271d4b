import { readdirSync, readFileSync } from "node:fs";
import { systemClock } from "@keelson/api-machinery/time";
import { expect, it, vi } from "vitest";
import { ServerProcess } from "./server-process.ts";

/** The ids of the guards of a process. */
function guardsOf(pid: number): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "utf8").includes(`\0keelson-guard\0${pid}\0`);
    } catch {
      // It has ended in the meantime.
      return false;
    }
  });
}

it("replaces a guard that was killed, which keeps its deadline", async () => {
  const server = new ServerProcess("sleep", systemClock);
  const pid = server.start(["600"], "/") ?? 0;
  server.guard(undefined);
  await vi.waitFor(() => expect(guardsOf(pid)).toHaveLength(1), { timeout: 30_000 });
  const [first = ""] = guardsOf(pid);
  process.kill(Number(first), "SIGKILL");
  await vi.waitFor(() => expect(guardsOf(pid).filter((guard) => guard !== first)).toHaveLength(1), { timeout: 30_000 });
  server.guard(1_000);
  const [second = ""] = guardsOf(pid);
  process.kill(Number(second), "SIGKILL");
  // The third guard kills the program.
  await expect(server.ended).resolves.toContain("SIGKILL");
}, 60_000);

it("keeps the secrets of the agent from its program, and reports its exit", async () => {
  vi.stubEnv("AGENT_TOKEN", "secret");
  const server = new ServerProcess("bash", systemClock);
  server.start(["-c", 'echo "token=$AGENT_TOKEN."'], "/");
  await server.exited;
  await expect(server.ended).resolves.toContain("token=.");
  vi.unstubAllEnvs();
});
