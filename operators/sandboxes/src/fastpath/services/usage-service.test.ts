import { Code, createClient as createRpcClient, createRouterTransport } from "@connectrpc/connect";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Cache } from "@keelson/controller";
import { SandboxUsage } from "@keelson/sandbox/protocol";
import { expect, it } from "vitest";
import type { AgentClient } from "../../fleet/agent-client.ts";
import type { SandboxUsage as Usage } from "../../protocol/protocol.ts";
import { createUsageService } from "./usage-service.ts";

const clock = createVirtualClock();
const sandbox = (name: string, agent: string) => ({
  metadata: { namespace: "default", name, labels: {} },
  spec: { image: "host", poolRef: "pool" },
  status: { phase: "Running", sandboxID: `id-${name}`, assignedPod: agent, runtime: { deniedFlows: 3 } },
});
const usage = (name: string): Usage => ({
  ...{ sandboxId: `id-${name}`, cpuMillis: 120, memoryBytes: 1 << 20, pids: 2 },
  limits: { cpuMillis: 1000, memoryBytes: 512 << 20 },
});

/** A client of a service whose agents report this. */
function serve(agents: Readonly<Record<string, () => Promise<readonly Usage[]>>>) {
  const selections: unknown[] = [];
  const cache = {
    list(_: unknown, selection: unknown) {
      selections.push(selection);
      return [sandbox("two", "second"), sandbox("one", "first")];
    },
  } as unknown as Cache;
  const agentClient = (_: string, name: string): AgentClient | undefined =>
    agents[name] === undefined ? undefined : ({ usage: agents[name] } as unknown as AgentClient);
  const transport = createRouterTransport((router) =>
    router.service(SandboxUsage, createUsageService({ cache, clock, agentClient })),
  );
  return { client: createRpcClient(SandboxUsage, transport), selections };
}

it("reports what the agent of a sandbox says about it, and not what others say", async () => {
  const first = (): Promise<readonly Usage[]> => Promise.resolve([usage("one"), usage("two")]);
  const { client, selections } = serve({ first, second: () => Promise.reject(new Error("does not respond")) });
  const reports = [];
  for await (const report of client.watchUsage({ labelSelector: "a=b" })) reports.push(report.items);
  const measured = { cpuMillis: 120n, cpuLimitMillis: 1000n, memoryBytes: 1n << 20n, processes: 2n, processLimit: 0n };
  expect(reports).toMatchObject([[{ sandboxName: "one", deniedFlows: 3n, measured }, { sandboxName: "two" }]]);
  expect(reports[0]?.[1]?.measured).toBeUndefined();
  expect(selections).toEqual([{ namespace: "default", labelSelector: "a=b" }]);
});

it("repeats the report until the caller cancels the call", async () => {
  const { client } = serve({});
  const caller = new AbortController();
  const reports = client
    .watchUsage({ intervalSeconds: 5, allNamespaces: true }, { signal: caller.signal })
    [Symbol.asyncIterator]();
  expect((await reports.next()).value.items).toHaveLength(2);
  const second = reports.next();
  await clock.advance(5000);
  expect((await second).value.items).toHaveLength(2);
  caller.abort();
  await expect(reports.next()).rejects.toMatchObject({ code: Code.Canceled });
});

it("rejects an interval out of range", async () => {
  const reports = serve({}).client.watchUsage({ intervalSeconds: -1 })[Symbol.asyncIterator]();
  await expect(reports.next()).rejects.toMatchObject({ code: Code.InvalidArgument });
});
