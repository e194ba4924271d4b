import { spawn } from "node:child_process";
import { AgentError, programEnvironment } from "@keelson/middleware-agent";
import { PostgresConnection, type PostgresAddress } from "../server/postgres-client.ts";
import type { ServerFiles } from "../server/server-files.ts";

/** Name of the slot that keeps the log of a backup while it is sent. It ends with the connection that created it. */
const slotName = (id: string): string => `keelson_backup_${id}`;
const maxErrorLength = 10_000;

/** A server to back up. */
export interface BackupSource {
  readonly files: ServerFiles;
  /** The server's own socket. */
  readonly address: PostgresAddress;
  /** Identifies this backup: lower-case letters and digits. */
  readonly id: string;
}

/**
 * Streams a base backup with the log that it needs: a tar archive with a manifest. A temporary slot keeps the log in the meantime.
 *
 * **Errors**: an `AgentError` with code `SnapshotFailed`.
 */
export async function* takeBaseBackup({ files, address, id }: BackupSource): AsyncGenerator<Uint8Array> {
  await using connection = await PostgresConnection.open(address);
  await connection.run("SELECT pg_create_physical_replication_slot($1, true, true)", [slotName(id)]);
  const options = ["--format=tar", "--pgdata=-", "--wal-method=fetch", "--checkpoint=fast", "--manifest-checksums=SHA256"];
  const server = [`--host=${address.host}`, `--port=${address.port}`, "--username=postgres", "--no-password"];
  const child = spawn(files.program("pg_basebackup"), [...options, ...server], {
    cwd: files.home,
    env: { ...programEnvironment(), LC_ALL: "C", HOME: files.home },
    stdio: ["ignore", "pipe", "pipe"],
    ...files.user,
  });
  let output = "";
  child.stderr.on("data", (chunk: Buffer) => {
    output = (output + chunk.toString("utf8")).slice(-maxErrorLength);
  });
  const ended = new Promise<string | undefined>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code) => resolve(code === 0 ? undefined : output.trim().split("\n").slice(-2).join("; ")));
  });
  try {
    for await (const chunk of child.stdout) yield chunk as Buffer;
    const problem = await ended;
    if (problem !== undefined) throw new AgentError("SnapshotFailed", `pg_basebackup failed: ${problem}`);
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
}
