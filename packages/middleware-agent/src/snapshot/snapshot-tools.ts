import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { ToolInvoker } from "../agent2.generated.ts";
import { AgentError } from "../agent-error.ts";
import type { SnapshotEngine, SnapshotOutcome } from "./snapshot-engine.ts";

/** The snapshot methods of an agent. */
export type SnapshotTools = Pick<ServiceImpl<typeof ToolInvoker>, "snapshot" | "checkSnapshot" | "loadSnapshot">;

/** Serves the snapshots of an engine. */
export function createSnapshotTools(engine: SnapshotEngine): SnapshotTools {
  return {
    async *snapshot() {
      try {
        for await (const part of engine.snapshot()) {
          if (part instanceof Uint8Array) yield { data: part };
          else {
            const { sizeBytes, keys, expiringKeys, format, programVersion, unit = "", logStart = "" } = part;
            const counts = { sizeBytes: BigInt(sizeBytes), keys: BigInt(keys), expiringKeys: BigInt(expiringKeys) };
            yield { summary: { ...counts, format, programVersion, unit, logStart } };
          }
        }
      } catch (error) {
        if (error instanceof AgentError) throw new ConnectError(error.message, Code.FailedPrecondition);
        throw error;
      }
    },
    async checkSnapshot(messages) {
      return resultOf(await engine.check(bytesOf(messages)));
    },
    async loadSnapshot(messages, { signal }) {
      const iterator = messages[Symbol.asyncIterator]();
      const first = await iterator.next();
      if (first.done === true || first.value.sizeBytes <= 0n)
        throw new ConnectError("size_bytes: must be positive in the first message", Code.InvalidArgument);
      const data = bytesOf({ [Symbol.asyncIterator]: () => iterator });
      return resultOf(await engine.load(Number(first.value.sizeBytes), data, { signal }));
    },
  };
}

async function* bytesOf(messages: AsyncIterable<{ readonly data: Uint8Array }>): AsyncGenerator<Uint8Array> {
  for await (const { data } of messages) if (data.length > 0) yield data;
}

/** An outcome as a message. */
export function resultOf(outcome: SnapshotOutcome) {
  if (!outcome.ok) return { success: false, error: outcome.error };
  const { keys, expiringKeys } = outcome;
  return { success: true, keys: BigInt(keys), expiringKeys: BigInt(expiringKeys) };
}
