import { rm } from "node:fs/promises";
import { superuser } from "../server/postgres-client.ts";
import { requireTool } from "../server/run-tool.ts";
import type { ServerFiles } from "../server/server-files.ts";

/** Replaces the data by an empty cluster with data checksums. The superuser has this password. */
export async function initializeData(files: ServerFiles, password: string): Promise<void> {
  const passwordFile = files.path("conf/password");
  await files.write(passwordFile, password);
  const target = files.data.next;
  await rm(target, { recursive: true, force: true });
  const options = ["--data-checksums", "--encoding=UTF8", "--no-locale", "--auth=scram-sha-256", `--pwfile=${passwordFile}`];
  await requireTool(files.program("initdb"), [`--pgdata=${target}`, `--username=${superuser}`, ...options], files.tool);
  await rm(passwordFile);
  await files.data.replace();
}
