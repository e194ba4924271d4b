import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { ToolInvoker } from "@keelson/middleware-agent/protocol";
import type { SnapshotOutcome, SnapshotSummary } from "@keelson/middleware-agent";
import { BackupError } from "./backup-error.ts";

/** Snapshots of the program of a Pod. */
export interface SnapshotClient {
  /** Streams a snapshot into `onSummary` and the returned bytes. The summary arrives before the last byte is passed on. */
  snapshot(onSummary: (summary: SnapshotSummary) => void): AsyncIterable<Uint8Array>;
  check(data: AsyncIterable<Uint8Array>): Promise<SnapshotOutcome>;
  load(sizeBytes: number, data: AsyncIterable<Uint8Array>): Promise<SnapshotOutcome>;
  close(): void;
}

/** Connects to the agent at `http://<address>:<port>`. Calls have no timeout: a frozen Pod is noticed by its missing pings. */
export function createSnapshotClient(baseUrl: string, token: string): SnapshotClient {
  const sessionManager = new Http2SessionManager(baseUrl, { pingIntervalMs: 10_000, pingTimeoutMs: 15_000 });
  const tools = createClient(ToolInvoker, createGrpcTransport({ baseUrl, sessionManager }));
  const options = { headers: { authorization: `Bearer ${token}` } };
  return {
    snapshot: (onSummary) => readSnapshot(tools, options, onSummary),
    check: (data) => streaming((messages) => tools.checkSnapshot(messages, options), data),
    load: (sizeBytes, data) => streaming((messages) => tools.loadSnapshot(messages, options), data, sizeBytes),
    close: () => sessionManager.abort(),
  };
}

type Tools = Client<typeof ToolInvoker>;

async function* readSnapshot(
  tools: Tools,
  options: { readonly headers: Readonly<Record<string, string>> },
  onSummary: (summary: SnapshotSummary) => void,
): AsyncGenerator<Uint8Array> {
  let isComplete = false;
  try {
    for await (const { data, summary } of tools.snapshot({}, options)) {
      if (summary !== undefined) {
        const { sizeBytes, keys, expiringKeys, format, programVersion } = summary;
        const counts = { sizeBytes: Number(sizeBytes), keys: Number(keys), expiringKeys: Number(expiringKeys) };
        onSummary({ ...counts, format, programVersion });
        isComplete = true;
      } else if (data.length > 0) yield data;
    }
  } catch (error) {
    throw converted(error);
  }
  if (!isComplete) throw new BackupError("Storage", "the snapshot ended without a summary");
}

/** Sends a stream. An error of the stream itself is more important than that of the call, which it aborts. */
async function streaming(
  call: (messages: AsyncIterable<{ sizeBytes?: bigint; data?: Uint8Array }>) => Promise<{
    readonly success: boolean;
    readonly error: string;
    readonly keys: bigint;
    readonly expiringKeys: bigint;
  }>,
  data: AsyncIterable<Uint8Array>,
  sizeBytes?: number,
): Promise<SnapshotOutcome> {
  let failure: Error | undefined;
  const messages = (async function* () {
    try {
      if (sizeBytes !== undefined) yield { sizeBytes: BigInt(sizeBytes) };
      for await (const chunk of data) yield { data: chunk };
    } catch (error) {
      failure = error as Error;
      throw error;
    }
  })();
  try {
    const { success, error, keys, expiringKeys } = await call(messages);
    return success ? { ok: true, keys: Number(keys), expiringKeys: Number(expiringKeys) } : { ok: false, error };
  } catch (error) {
    throw failure ?? converted(error);
  }
}

function converted(error: unknown): Error {
  if (error instanceof BackupError) return error;
  const { code, rawMessage } = ConnectError.from(error);
  if (code === Code.Unimplemented)
    return new BackupError(
      "Rejected",
      "the agent has no snapshots: the plugin does not support backups, or the Pods of the App run an older agent and must be restarted",
    );
  return new BackupError("Storage", `the agent: ${rawMessage}`, { cause: error });
}
