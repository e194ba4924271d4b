import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isJsonObject } from "@keelson/api-machinery";
import { type AgentIdentity, CertificateFolder, tlsModeOf } from "@keelson/middleware-agent";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { BackupError } from "../backup/backup-error.ts";
import type { BackupStore } from "../backup/backup-store.ts";
import { runTransfer } from "../backup/run-transfer.ts";
import { parseKey } from "../backup/sealed-stream.ts";
import { createSnapshotClient } from "../backup/snapshot-client.ts";
import { type TransferRequest, type TransferResult, type TransferStorage, transferVariables } from "../backup/transfer.ts";
import { VolumeStore } from "../backup/volume-store.ts";

/** `keelson middleware transfer`: runs in Pods that store, verify, load or delete a backup, or archive a log. */
export const transferCommand: CommandDefinition = {
  name: "transfer",
  isInternal: true,
  description: "transfer the data of a backup",
  flags: [
    { name: "result", value: "FILE", description: "file for the result as JSON", required: true },
    {
      name: "request",
      value: "JSON",
      description: "what to transfer; set by the controller",
      required: true,
      env: transferVariables.request,
    },
    { name: "token", value: "TOKEN", description: "token of the App's agents", env: transferVariables.token, default: "" },
    { name: "agent-tls-dir", value: "DIR", description: "directory with the identity at the App's agents", default: "" },
    { name: "encryption-key", value: "KEY", description: "encryption key", env: transferVariables.encryptionKey, default: "" },
    { name: "access-key-id", value: "ID", description: "S3 access key", env: transferVariables.accessKeyId, default: "" },
    {
      name: "secret-access-key",
      value: "KEY",
      description: "S3 secret key",
      env: transferVariables.secretAccessKey,
      default: "",
    },
  ],
  run,
};

async function run({ flags, stdout, stderr, clock, log, signal }: CommandContext): Promise<number> {
  const text = (name: string): string => (typeof flags[name] === "string" ? flags[name] : "");
  const request: unknown = JSON.parse(text("request"));
  if (!isJsonObject(request) || text("result") === "") {
    stderr.write("--request: must be a JSON object, and --result a file\n");
    return 2;
  }
  const work = request as unknown as TransferRequest;
  const identity = await openIdentity(text("agent-tls-dir"), { clock, log });
  const result = await performing(async () =>
    runTransfer(work, {
      store: await createStore(work.storage, text("access-key-id"), text("secret-access-key")),
      connect: (baseUrl) => createSnapshotClient(baseUrl, text("token"), identity),
      encryptionKey: text("encryption-key") === "" ? undefined : parseKey(text("encryption-key")),
      onMessage: (message) => void stderr.write(`${work.kind}: ${message}\n`),
      ...{ randomBytes, clock, signal },
    }),
  );
  await writeFile(text("result"), JSON.stringify(result));
  if (result.ok) stdout.write(`${work.kind}: done\n`);
  else stderr.write(`${work.kind}: ${result.error}\n`);
  return result.ok ? 0 : 1;
}

/** The identity at the agents, which may be rotated. Undefined if they do not use TLS. */
async function openIdentity(
  folder: string,
  { clock, log }: Pick<CommandContext, "clock" | "log">,
): Promise<() => AgentIdentity | undefined> {
  const mode = folder === "" ? undefined : tlsModeOf(await readFile(join(folder, "mode"), "utf8").catch(() => ""));
  if (mode === undefined) return () => undefined;
  const opened = await CertificateFolder.open(folder, log, { clock });
  return () => ({ mode, ...opened.current });
}

async function performing(act: () => Promise<TransferResult>): Promise<TransferResult> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof BackupError)) throw error;
    return { ok: false, error: error.message, isFinal: error.code !== "Storage" };
  }
}

async function createStore(storage: TransferStorage, accessKeyId: string, secretAccessKey: string): Promise<BackupStore> {
  if (storage.kind === "volume") return new VolumeStore(storage.root);
  // Loaded on demand: agents and controllers do not need it.
  const { S3Store } = await import("../backup/s3-store.ts");
  return new S3Store({ ...storage, accessKeyId, secretAccessKey });
}
