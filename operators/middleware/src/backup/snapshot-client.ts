import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AgentSessions, ToolInvoker } from "@keelson/middleware-agent/protocol";
import type { AgentIdentity, LogFile, SnapshotOutcome, SnapshotSummary } from "@keelson/middleware-agent";
import { BackupError } from "./backup-error.ts";
import { type RecoverRequest, recoverSnapshot } from "./recover-client.ts";

/** Snapshots of the program of a Pod. */
export interface SnapshotClient {
  /** Streams a snapshot into `onSummary` and the returned bytes. The summary arrives before the last byte is passed on. */
  snapshot(onSummary: (summary: SnapshotSummary) => void): AsyncIterable<Uint8Array>;
  check(data: AsyncIterable<Uint8Array>): Promise<SnapshotOutcome>;
  load(sizeBytes: number, data: AsyncIterable<Uint8Array>): Promise<SnapshotOutcome>;
  /** Loads a snapshot, and applies log to it. */
  recover(request: RecoverRequest): Promise<SnapshotOutcome>;
  /** Waits for the next file of the log. Rejects with code `Damaged` if it no longer exists, unless that is skipped. */
  readLog(skipMissing: boolean, signal: AbortSignal): Promise<LogFile>;
  /** Confirms that a file and all before it are stored durably. `missing`: the file before which log was skipped. */
  confirmLog(cursor: string, missing?: string): Promise<void>;
  close(): void;
}

/**
 * Connects to the agent at `http://<address>:<port>`, with TLS if it has an identity. Calls have no timeout: a frozen Pod is noticed by its
 * missing pings.
 */
export function createSnapshotClient(
  baseUrl: string,
  token: string,
  identity: () => AgentIdentity | undefined = () => undefined,
): SnapshotClient {
  const { hostname, port } = new URL(baseUrl);
  const address = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) };
  const sessionManager = new AgentSessions({ ...address, identity, pingIntervalMs: 10_000, pingTimeoutMs: 15_000 });
  const tools = createClient(ToolInvoker, createGrpcTransport({ baseUrl, sessionManager }));
  const options = { headers: { authorization: `Bearer ${token}` } };
  return {
    snapshot: (onSummary) => readSnapshot(tools, options, onSummary),
    check: (data) => streaming((messages) => tools.checkSnapshot(messages, options), data),
    load: (sizeBytes, data) => streaming((messages) => tools.loadSnapshot(messages, options), data, sizeBytes),
    recover: (request) =>
      recoverSnapshot(tools, request, options).catch((error: unknown) => {
        throw converted(error);
      }),
    readLog: (skipMissing, signal) => readLog(tools, { ...options, signal }, skipMissing),
    async confirmLog(cursor, missing = "") {
      const { success, error } = await tools.confirmLog({ cursor, missing }, options).catch((each: unknown) => {
        throw converted(each);
      });
      if (!success) throw new BackupError("Rejected", error);
    },
    close: () => sessionManager.abort(),
  };
}

async function readLog(tools: Tools, options: CallOptions, skipMissing: boolean): Promise<LogFile> {
  const chunks = tools.readLog({ skipMissing }, options)[Symbol.asyncIterator]();
  const first = await chunks.next().catch((error: unknown) => {
    throw converted(error);
  });
  if (first.done === true) throw new BackupError("Storage", "the agent sent no log file");
  const { name, cursor } = first.value;
  const data = (async function* () {
    try {
      for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) yield next.value.data;
    } catch (error) {
      throw converted(error);
    }
  })();
  return { name, cursor, data };
}

type CallOptions = { readonly headers: Readonly<Record<string, string>>; readonly signal?: AbortSignal };

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
        const { sizeBytes, keys, expiringKeys, format, programVersion, unit, logStart } = summary;
        const counts = { sizeBytes: Number(sizeBytes), keys: Number(keys), expiringKeys: Number(expiringKeys) };
        onSummary({
          ...counts,
          format,
          programVersion,
          ...(unit === "" ? {} : { unit }),
          ...(logStart === "" ? {} : { logStart }),
        });
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
  if (code === Code.OutOfRange) return new BackupError("Damaged", rawMessage);
  return new BackupError("Storage", `the agent: ${rawMessage}`, { cause: error });
}
