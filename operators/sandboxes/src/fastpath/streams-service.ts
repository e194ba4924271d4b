import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { Cache } from "@keelson/controller";
import type { AgentClient } from "../agent/agent-client.ts";
import { Sandbox } from "../api/sandbox.ts";
import { LogChunkSchema, type SandboxStreams } from "./generated/keelson/sandboxes/v1/streams_pb.ts";
import { sandboxInfo } from "./sandbox-info.ts";

/** The service `keelson.sandboxes.v1.SandboxStreams`: passes on what the agent of a sandbox says. */
export function createStreamsService(options: {
  readonly cache: Cache;
  readonly agentClient: (namespace: string, name: string) => AgentClient | undefined;
}): ServiceImpl<typeof SandboxStreams> {
  return {
    async *logs({ sandboxName, namespace, follow }, { signal }) {
      const key = { namespace: namespace || "default", name: sandboxName };
      const sandbox = options.cache.get(Sandbox, key);
      if (sandbox === undefined) throw new ConnectError(`there is no sandbox ${key.namespace}/${key.name}`, Code.NotFound);
      const { sandboxId, agentPod, phase } = sandboxInfo(sandbox);
      if (sandboxId === "") throw new ConnectError(`sandbox ${key.name} is ${phase} and has no log`, Code.FailedPrecondition);
      const agent = options.agentClient(key.namespace, agentPod);
      if (agent === undefined) throw new ConnectError(`agent ${agentPod} is not heard of`, Code.Unavailable);
      try {
        for await (const data of await agent.logs(sandboxId, follow, signal)) yield create(LogChunkSchema, { data });
      } catch (error) {
        if (signal.aborted) return;
        throw new ConnectError(error instanceof Error ? error.message : String(error), Code.Unavailable);
      }
    },
  };
}
