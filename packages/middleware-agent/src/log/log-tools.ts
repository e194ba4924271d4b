import { PassThrough } from "node:stream";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { RecoverData, ToolInvoker } from "../agent2.generated.ts";
import { AgentError } from "../agent-error.ts";
import type { Outcome } from "../engine.ts";
import type { SnapshotEngine } from "../snapshot/snapshot-engine.ts";
import { resultOf } from "../snapshot/snapshot-tools.ts";
import type { LogEngine, RecoveryTarget } from "./log-engine.ts";

/** The log methods of an agent. */
export type LogTools = Pick<ServiceImpl<typeof ToolInvoker>, "setLogArchive" | "readLog" | "confirmLog" | "recoverSnapshot">;

/** Serves the log of an engine, and recovery with it. */
export function createLogTools(engine: LogEngine, snapshots: SnapshotEngine | undefined): LogTools {
  return {
    async setLogArchive({ enabled }) {
      return answerOf(await engine.setArchive(enabled));
    },
    async *readLog({ skipMissing }, { signal }) {
      try {
        const file = await engine.next({ skipMissing, signal });
        yield { name: file.name, cursor: file.cursor };
        for await (const data of file.data) yield { data };
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        throw new ConnectError(error.message, error.code === "LogMissing" ? Code.OutOfRange : Code.FailedPrecondition);
      }
    },
    async confirmLog({ cursor, missing }) {
      return answerOf(await engine.confirm(cursor, missing === "" ? undefined : missing));
    },
    async *recoverSnapshot(messages, { signal }) {
      if (snapshots === undefined) throw new ConnectError("the program has no snapshots", Code.Unimplemented);
      yield* recoverWith(snapshots, messages, signal);
    },
  };
}

const answerOf = (outcome: Outcome) => ({ success: outcome.ok, error: outcome.ok ? "" : outcome.error });

async function* recoverWith(snapshots: SnapshotEngine, messages: AsyncIterable<RecoverData>, signal: AbortSignal) {
  const iterator = messages[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done === true || first.value.sizeBytes <= 0n)
    throw new ConnectError("size_bytes: must be positive in the first message", Code.InvalidArgument);
  const { sizeBytes, target, logFiles } = first.value;
  const wanted = new PassThrough({ objectMode: true });
  const names = new Set(logFiles);
  const log = {
    names,
    read: (name: string) => {
      wanted.write(name);
      return fileOf(iterator);
    },
  };
  const recovery = { target: targetOf(target?.time ?? "", target?.position ?? ""), log };
  const loaded = snapshots.load(Number(sizeBytes), snapshotOf(iterator, Number(sizeBytes)), { signal, recovery });
  // Ends the loop below; the error is thrown there.
  loaded.then(
    () => wanted.end(),
    () => wanted.end(),
  );
  for await (const name of wanted) yield { wanted: String(name) };
  yield { result: resultOf(await loaded) };
}

function targetOf(time: string, position: string): RecoveryTarget {
  if (time !== "" && position !== "")
    throw new ConnectError("target: must have a time or a position, not both", Code.InvalidArgument);
  if (time !== "") return { kind: "time", time };
  return position === "" ? { kind: "latest" } : { kind: "position", position };
}

/** The bytes of the snapshot. The iterator continues with files of the log. */
async function* snapshotOf(iterator: AsyncIterator<RecoverData>, sizeBytes: number): AsyncGenerator<Uint8Array> {
  for (let rest = sizeBytes; rest > 0; ) {
    const { done, value } = await iterator.next();
    if (done === true) throw new AgentError("SnapshotFailed", `the snapshot ended ${rest} bytes too early`);
    rest -= value.data.length;
    if (value.data.length > 0) yield value.data;
  }
}

async function* fileOf(iterator: AsyncIterator<RecoverData>): AsyncGenerator<Uint8Array> {
  for (;;) {
    const { done, value } = await iterator.next();
    if (done === true) throw new AgentError("SnapshotFailed", "a log file ended too early");
    if (value.data.length > 0) yield value.data;
    if (value.fileEnd) return;
  }
}
