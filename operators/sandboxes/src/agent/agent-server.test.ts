import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { createAgentClient } from "../fleet/agent-client.ts";
import type { SandboxManager } from "../sandbox/sandbox-manager.ts";
import { startAgentServer } from "./agent-server.ts";

it("streams its status to the operator while clients use all other streams", async () => {
  const folder = mkdtempSync(join(tmpdir(), "agent-server-"));
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): unknown => warnings.push(name);
  process.on("warning", onWarning);
  const control = new AbortController();
  const { signal } = control;
  const stdout = join(folder, "stdout.log");
  writeFileSync(stdout, "text");
  const program = { id: "one", state: { kind: "running" }, logs: { stdout }, exited: () => new Promise(() => {}) };
  const manager = { program: () => program, status: () => ({ agentId: "agent" }), onChange: () => () => {} };
  const token = "0123456789abcdef".repeat(4);
  const server = await startAgentServer({
    ...{ token, port: 0, bindAddress: "127.0.0.1", clock: systemClock, log: silentLogger },
    manager: manager as unknown as SandboxManager,
  });
  try {
    const client = createAgentClient({ url: server.url, token }, systemClock);
    for (let stream = 0; stream < 256; stream++) {
      const logs = await client.logs("one", true, signal);
      void (async () => {
        for await (const _ of logs);
      })().catch(() => {});
    }
    await expect(client.logs("one", true, signal)).rejects.toMatchObject({ status: 429 });
    const { value: status } = await client.watch(signal)[Symbol.asyncIterator]().next();
    expect(status).toEqual({ agentId: "agent" });
    // They share a signal, to which each would add a listener.
    expect(warnings).not.toContain("MaxListenersExceededWarning");
  } finally {
    process.off("warning", onWarning);
    control.abort();
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
