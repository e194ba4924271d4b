import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { createAgentClient } from "../fleet/agent-client.ts";
import type { SandboxManager } from "../sandbox/sandbox-manager.ts";
import { startAgentServer } from "./agent-server.ts";

const token = "0123456789abcdef".repeat(4);

const status = { agentId: "agent", nodeName: "", capacity: 1, allocated: 0, images: [], sandboxStatuses: [] };

/** An agent's API with one sandbox, whose log is at a path. */
async function serve(stdout: string) {
  const program = { id: "one", state: { kind: "running" }, logs: { stdout }, onExit: () => () => {} };
  const manager = { program: () => program, status: () => status, onChange: () => () => {} };
  const server = await startAgentServer({
    ...{ token, port: 0, bindAddress: "127.0.0.1", clock: systemClock, log: silentLogger },
    manager: manager as unknown as SandboxManager,
  });
  return { server, client: createAgentClient({ url: server.url, token }, systemClock) };
}

it("streams its status to the operator while clients use all other streams", async () => {
  const folder = mkdtempSync(join(tmpdir(), "agent-server-"));
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): unknown => warnings.push(name);
  process.on("warning", onWarning);
  const control = new AbortController();
  const { signal } = control;
  const stdout = join(folder, "stdout.log");
  writeFileSync(stdout, "text");
  const { server, client } = await serve(stdout);
  try {
    for (let stream = 0; stream < 256; stream++) {
      const logs = await client.logs("one", true, signal);
      void (async () => {
        for await (const _ of logs);
      })().catch(() => {});
    }
    await expect(client.logs("one", true, signal)).rejects.toMatchObject({ status: 429 });
    const { value } = await client.watch(signal)[Symbol.asyncIterator]().next();
    expect(value).toEqual(status);
    // They share a signal, to which each would add a listener.
    expect(warnings).not.toContain("MaxListenersExceededWarning");
  } finally {
    process.off("warning", onWarning);
    control.abort();
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

it("breaks off a stream whose reader fails, so that it does not look complete", async () => {
  const folder = mkdtempSync(join(tmpdir(), "agent-server-"));
  // It can be opened, but not read.
  const { server, client } = await serve(folder);
  try {
    const read = async (): Promise<Buffer> => buffer(await client.logs("one", false, new AbortController().signal));
    // The connection may be reset before the headers arrive.
    await expect(read()).rejects.toMatchObject({ code: expect.stringMatching(/^(Unreachable|ECONNRESET)$/) as string });
  } finally {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
