import { rm } from "node:fs/promises";
import type { Upstream } from "../server/postgres-config.ts";
import { requireTool } from "../server/run-tool.ts";
import type { ServerFiles } from "../server/server-files.ts";
import { backupArguments, rewindArguments } from "./tool-arguments.ts";

/** Replaces all data by a copy of another server's. */
export async function cloneData(files: ServerFiles, upstream: Upstream, signal: AbortSignal): Promise<void> {
  const target = files.data.next;
  await rm(target, { recursive: true, force: true });
  const { password } = upstream;
  await requireTool(files.program("pg_basebackup"), backupArguments(upstream, target), { ...files.tool, password, signal });
  await files.data.replace();
}

/** Discards what another server does not have. The data is marked incomplete before it changes. */
export async function rewindData(
  files: ServerFiles,
  configFile: string,
  upstream: Upstream,
  signal: AbortSignal,
): Promise<void> {
  const args = rewindArguments(upstream, files.data.path, configFile);
  await files.data.markIncomplete();
  const { password } = upstream;
  await requireTool(files.program("pg_rewind"), args, { ...files.tool, password, signal });
}
