import type { Clock } from "@keelson/api-machinery/time";
import type { SnapshotSummary } from "@keelson/middleware-agent";
import { type Artifact, Digest, verified } from "./artifact.ts";
import { BackupError } from "./backup-error.ts";
import { type BackupStore, bytesOf } from "./backup-store.ts";
import { LogStore } from "./log-store.ts";
import { runArchive } from "./run-archive.ts";
import { keyId, seal } from "./sealed-stream.ts";
import type { SnapshotClient } from "./snapshot-client.ts";
import type { BackupTransfer, CheckTransfer, LoadTransfer, TransferResult, TransferWork } from "./transfer.ts";

/** What a transfer runs with. */
export interface TransferContext {
  readonly store: BackupStore;
  /** Connects to the agent at a URL. */
  readonly connect: (baseUrl: string) => SnapshotClient;
  readonly encryptionKey: Uint8Array | undefined;
  readonly clock: Clock;
  /** Ends an archive of the log, which otherwise does not end. */
  readonly signal: AbortSignal;
  readonly onMessage: (message: string) => void;
  /** Returns that many random bytes. */
  readonly randomBytes: (length: number) => Uint8Array;
}

/** Name of the data in the directory of a backup. */
const dataName = "data";
const saltLength = 32;

/** Performs a transfer. Resolves to its result; rejects for programming errors only. */
export async function runTransfer(work: TransferWork, context: TransferContext): Promise<TransferResult> {
  try {
    switch (work.kind) {
      case "backup":
        return await withClient(work.agent, context, (client) => takeBackup(work, client, context));
      case "check":
        return await check(work, context);
      case "load":
        return await withClient(work.agent, context, (client) => load(work, client, context));
      case "archive":
        if (work.mustEncrypt && context.encryptionKey === undefined)
          throw new BackupError("InvalidKey", "spec.encryption.keySecret: the key must not be empty");
        await runArchive({
          ...context,
          openStore: () => openLog(work.folder, context),
          connect: () => context.connect(work.agent),
          ...(work.keepFrom === undefined ? {} : { keepFrom: work.keepFrom }),
        });
        return { ok: true };
      case "delete":
        await context.store.remove(work.path);
        return { ok: true };
    }
  } catch (error) {
    if (error instanceof BackupError) {
      const isFinal = error.code !== "Storage" && error.code !== "NotLoaded";
      const isDataKept = isFinal || error.code === "NotLoaded";
      return { ok: false, error: error.message, isFinal, ...(work.kind === "load" ? { isDataKept } : {}) };
    }
    // A full volume, or a directory without permissions.
    if ((error as NodeJS.ErrnoException).syscall !== undefined)
      return { ok: false, error: (error as Error).message, isFinal: false };
    throw error;
  }
}

async function withClient<T>(
  agent: string,
  { connect }: TransferContext,
  act: (client: SnapshotClient) => Promise<T>,
): Promise<T> {
  const client = connect(agent);
  try {
    return await act(client);
  } finally {
    client.close();
  }
}

/** Stores the data, then a description of it. A backup exists when both are complete and the result was read. */
async function takeBackup(
  { path, description, mustEncrypt = false }: BackupTransfer,
  client: SnapshotClient,
  { store, encryptionKey, randomBytes }: TransferContext,
): Promise<TransferResult> {
  if (mustEncrypt && encryptionKey === undefined)
    throw new BackupError("InvalidKey", "spec.encryption.keySecret: the key must not be empty");
  const inner = new Digest();
  const outer = new Digest();
  let summary: SnapshotSummary | undefined;
  const snapshot = inner.pass(
    client.snapshot((each) => {
      summary = each;
    }),
  );
  const stored = encryptionKey === undefined ? snapshot : seal(snapshot, encryptionKey, randomBytes(saltLength));
  const data = `${path}/${dataName}`;
  await store.write(data, outer.pass<Uint8Array>(stored));
  if (summary === undefined || summary.sizeBytes !== inner.bytes)
    throw new BackupError("Storage", `the snapshot has ${inner.bytes} bytes instead of ${summary?.sizeBytes}`);
  const { keys, expiringKeys, format, programVersion, unit, logStart } = summary;
  const artifact: Artifact = {
    path: data,
    sizeBytes: inner.bytes,
    sha256: inner.sha256,
    storedBytes: outer.bytes,
    storedSha256: outer.sha256,
    ...{ keys, expiringKeys, format, programVersion },
    ...(unit === undefined ? {} : { unit }),
    ...(logStart === undefined ? {} : { logStart }),
    ...(encryptionKey === undefined ? {} : { keyId: keyId(encryptionKey) }),
  };
  await store.write(`${path}/manifest.json`, bytesOf(`${JSON.stringify({ ...description, artifact }, undefined, 2)}\n`));
  return { ok: true, artifact };
}

/** Verifies stored data, and that the program could load it. */
async function check({ agent, artifact, recovery }: CheckTransfer, context: TransferContext): Promise<TransferResult> {
  if (recovery !== undefined) await (await openLog(recovery.folder, context)).verify(artifact.logStart ?? "");
  const data = (): AsyncIterable<Uint8Array> => verifiedData(artifact, context);
  if (agent !== undefined) return withClient(agent, context, (client) => checkWith(client, artifact, data()));
  for await (const _ of data());
  return { ok: true };
}

async function checkWith(client: SnapshotClient, artifact: Artifact, data: AsyncIterable<Uint8Array>): Promise<TransferResult> {
  const outcome = await client.check(data);
  if (!outcome.ok) throw new BackupError("Rejected", `the program cannot load the backup: ${outcome.error}`);
  if (outcome.keys !== artifact.keys)
    throw new BackupError("Damaged", `the snapshot has ${outcome.keys} ${artifact.unit ?? "keys"} instead of ${artifact.keys}`);
  return { ok: true };
}

/** Verifies everything before the program is touched, then reads the data again and loads it. */
async function load(
  { artifact, recovery }: LoadTransfer,
  client: SnapshotClient,
  context: TransferContext,
): Promise<TransferResult> {
  await checkWith(client, artifact, verifiedData(artifact, context));
  const [{ sizeBytes }, data] = [artifact, verifiedData(artifact, context)];
  const outcome =
    recovery === undefined
      ? await client.load(sizeBytes, data)
      : await client.recover({ sizeBytes, data, target: recovery.target, log: await openLog(recovery.folder, context) });
  if (!outcome.ok) throw new BackupError("NotLoaded", `the program did not load the backup: ${outcome.error}`);
  const { keys, expiringKeys } = outcome;
  return { ok: true, keys, expiringKeys };
}

function openLog(folder: string, { store, encryptionKey, randomBytes }: TransferContext): Promise<LogStore> {
  return LogStore.open({ store, folder, encryptionKey, randomBytes });
}

function verifiedData(artifact: Artifact, { store, encryptionKey }: TransferContext): AsyncIterable<Uint8Array> {
  const { keyId: wanted, path } = artifact;
  if (wanted !== undefined && encryptionKey === undefined)
    throw new BackupError("WrongKey", "the backup is encrypted, and no key is configured");
  if (wanted !== undefined && encryptionKey !== undefined && keyId(encryptionKey) !== wanted)
    throw new BackupError("WrongKey", `the backup was encrypted with key ${wanted}, not with ${keyId(encryptionKey)}`);
  return verified(store.read(path), artifact, wanted === undefined ? undefined : encryptionKey);
}
