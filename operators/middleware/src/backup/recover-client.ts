import { PassThrough } from "node:stream";
import type { Client } from "@connectrpc/connect";
import type { RecoveryTarget, SnapshotOutcome } from "@keelson/middleware-agent";
import type { ToolInvoker } from "@keelson/middleware-agent/protocol";
import { BackupError } from "./backup-error.ts";
import type { LogStore } from "./log-store.ts";

/** A snapshot, and the log to apply to it. */
export interface RecoverRequest {
  readonly sizeBytes: number;
  readonly data: AsyncIterable<Uint8Array>;
  readonly target: RecoveryTarget;
  readonly log: Pick<LogStore, "names" | "read">;
}

type CallOptions = Parameters<Client<typeof ToolInvoker>["recoverSnapshot"]>[1];

/** Sends a snapshot, and then the files of the log that the agent requests. An error of the data is more important than that of the call. */
export async function recoverSnapshot(
  tools: Client<typeof ToolInvoker>,
  { sizeBytes, data, target, log }: RecoverRequest,
  options: CallOptions,
): Promise<SnapshotOutcome> {
  const wanted = new PassThrough({ objectMode: true });
  let failure: Error | undefined;
  const messages = (async function* () {
    try {
      yield { sizeBytes: BigInt(sizeBytes), target: messageOf(target), logFiles: [...log.names] };
      for await (const chunk of data) yield { data: chunk };
      for await (const name of wanted) {
        for await (const chunk of log.read(String(name))) yield { data: chunk };
        yield { fileEnd: true };
      }
    } catch (error) {
      failure = error as Error;
      throw error;
    }
  })();
  try {
    for await (const { wanted: name, result } of tools.recoverSnapshot(messages, options)) {
      if (name !== "") wanted.write(name);
      if (result === undefined) continue;
      const { success, error, keys, expiringKeys } = result;
      return success ? { ok: true, keys: Number(keys), expiringKeys: Number(expiringKeys) } : { ok: false, error };
    }
    throw new BackupError("Storage", "the recovery exited without a result");
  } catch (error) {
    throw failure ?? error;
  } finally {
    wanted.end();
  }
}

function messageOf(target: RecoveryTarget) {
  return {
    time: target.kind === "time" ? target.time : "",
    position: target.kind === "position" ? target.position : "",
  };
}
