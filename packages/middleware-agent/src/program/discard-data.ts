import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { isJsonObject } from "@keelson/api-machinery";
import type { Logger } from "@keelson/controller";
import { readJson, writeJson } from "../json-file.ts";

/** Empties a volume once for every request, so that the program copies the data of its primary. */
export async function discardData(dataDir: string, request: string | undefined, log: Logger): Promise<void> {
  if (request === undefined || request === "") return;
  const file = join(dataDir, "keelson-rebuild.json");
  const last = await readJson(file);
  if (isJsonObject(last) && last.request === request) return;
  log.warn({ dataDir, request }, "discarding the data of this Pod, which is rebuilt");
  for (const name of await readdir(dataDir)) await rm(join(dataDir, name), { recursive: true, force: true });
  await writeJson(file, { request });
}
