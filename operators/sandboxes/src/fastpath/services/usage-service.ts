import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { DeepReadonly } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Cache } from "@keelson/controller";
import {
  type MeasuredUsageSchema,
  type SandboxUsage as SandboxUsageService,
  type UsageInfoSchema,
  type UsageReport,
  UsageReportSchema,
  type UsageRequest,
} from "@keelson/sandbox/protocol";
import { Sandbox } from "../../api/sandbox.ts";
import type { AgentClient } from "../../fleet/agent-client.ts";
import type { SandboxUsage } from "../../protocol/protocol.ts";
import { sandboxInfo } from "../sandbox-info.ts";

/** Dependencies of the service. */
export interface UsageOptions {
  readonly cache: Cache;
  readonly clock: Clock;
  readonly agentClient: (namespace: string, name: string) => AgentClient | undefined;
}

const maxIntervalSeconds = 3600;

/** The service `keelson.sandboxes.v1.SandboxUsage`. */
export function createUsageService(options: UsageOptions): ServiceImpl<typeof SandboxUsageService> {
  return {
    async *watchUsage(request, { signal }) {
      const { intervalSeconds } = request;
      if (intervalSeconds < 0 || intervalSeconds > maxIntervalSeconds)
        throw new ConnectError(`interval_seconds: must be 0 to ${maxIntervalSeconds}`, Code.InvalidArgument);
      for (;;) {
        yield await reportOf(request, options);
        if (intervalSeconds === 0) return;
        await sleep(options.clock, intervalSeconds * 1000, signal).catch(() => {});
        if (signal.aborted) return;
      }
    },
  };
}

async function reportOf(request: UsageRequest, { cache, agentClient }: UsageOptions): Promise<UsageReport> {
  const sandboxes = [...chosen(request, cache)].sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
  /** By agent: what it reports about a sandbox of another one is not looked at. */
  const agents = new Map<string, Promise<ReadonlyMap<string, SandboxUsage>>>();
  const items = sandboxes.map(async (sandbox): Promise<MessageInitShape<typeof UsageInfoSchema>> => {
    const { namespace = "", name = "" } = sandbox.metadata;
    const { sandboxId, phase, agentPod, deniedFlows } = sandboxInfo(sandbox);
    const agent = `${namespace}/${agentPod}`;
    if (!agents.has(agent)) agents.set(agent, usagesOf(agentClient(namespace, agentPod)));
    const usage = (await agents.get(agent))?.get(sandboxId);
    return {
      ...{ sandboxName: name, namespace, sandboxId, phase, agentPod, deniedFlows },
      ...(usage !== undefined && { measured: measuredOf(usage) }),
    };
  });
  return create(UsageReportSchema, { items: await Promise.all(items) });
}

function chosen({ allNamespaces, namespace, labelSelector }: UsageRequest, cache: Cache): readonly DeepReadonly<Sandbox>[] {
  try {
    return cache.list(Sandbox, {
      ...(!allNamespaces && { namespace: namespace || "default" }),
      ...(labelSelector !== "" && { labelSelector }),
    });
  } catch (error) {
    throw new ConnectError(`label_selector: ${error instanceof Error ? error.message : String(error)}`, Code.InvalidArgument);
  }
}

const keyOf = ({ metadata }: DeepReadonly<Sandbox>): string => `${metadata.namespace ?? ""}/${metadata.name ?? ""}`;

/** Empty if the agent does not respond, or is of an earlier version. */
async function usagesOf(agent: AgentClient | undefined): Promise<ReadonlyMap<string, SandboxUsage>> {
  const usages = await agent?.usage().catch(() => []);
  return new Map((usages ?? []).map((usage) => [usage.sandboxId, usage]));
}

const measuredOf = ({
  cpuMillis,
  memoryBytes,
  pids,
  diskBytes,
  limits,
}: SandboxUsage): MessageInitShape<typeof MeasuredUsageSchema> => ({
  cpuMillis: BigInt(cpuMillis),
  memoryBytes: BigInt(memoryBytes),
  processes: BigInt(pids),
  ...(diskBytes !== undefined && { diskBytes: BigInt(diskBytes) }),
  cpuLimitMillis: BigInt(limits.cpuMillis ?? 0),
  memoryLimitBytes: BigInt(limits.memoryBytes ?? 0),
  processLimit: BigInt(limits.pids ?? 0),
  diskLimitBytes: BigInt(limits.diskBytes ?? 0),
});
