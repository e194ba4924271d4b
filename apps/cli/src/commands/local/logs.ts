import { createReadStream, existsSync, statSync, watch } from "node:fs";
import { join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { aborted } from "@keelson/controller/shutdown";
import { listenForShutdown } from "@keelson/controller";
import type { FlagValues } from "@keelson/operator";
import { countFlag, switchFlag } from "@keelson/operator/flags";
import { addFlag, flagValues } from "../../command-line.ts";
import { dataDirFlag } from "./data-dir-flag.ts";
import { lastLinesOffset } from "../../local/last-lines.ts";
import type { DefineCommand } from "../commands.ts";

const followFlag = switchFlag({ name: "follow", short: "f", description: "print new lines as they are written" });
const tailFlag = countFlag({ name: "tail", value: "LINES", description: "number of lines to print (default: all)" });

/** Defines `keelson logs`. */
export const defineLogsCommand: DefineCommand = (command, setExitCode) => {
  for (const flag of [dataDirFlag, followFlag, tailFlag]) addFlag(command, flag);
  command.action(async () => setExitCode(await logs(flagValues(command))));
};

async function logs(flags: FlagValues): Promise<number> {
  const path = join(resolve(dataDirFlag.read(flags)), "keelson.log");
  if (!existsSync(path)) throw new Error(`${path} not found: start keelson up, or set --data-dir`);
  const tail = tailFlag.read(flags);
  const start = tail === undefined ? 0 : await lastLinesOffset(path, tail);
  const end = await copy(path, start);
  if (!followFlag.read(flags)) return 0;
  const shutdown = listenForShutdown();
  try {
    await follow(path, end, shutdown.signal);
  } finally {
    shutdown.dispose();
  }
  return 0;
}

/** Prints a file from an offset. Resolves to the offset of its end. */
async function copy(path: string, start: number): Promise<number> {
  const { size } = statSync(path);
  if (size > start) await pipeline(createReadStream(path, { start, end: size - 1 }), process.stdout, { end: false });
  return size;
}

/** Prints what is appended to a file until the signal aborts. */
async function follow(path: string, end: number, signal: AbortSignal): Promise<void> {
  let offset = end;
  let copying = Promise.resolve();
  const watcher = watch(path, () => {
    copying = copying.then(async () => {
      // A shorter file was truncated and starts anew.
      const { size } = statSync(path);
      offset = await copy(path, size < offset ? 0 : offset);
    });
    copying.catch(() => {});
  });
  await aborted(signal);
  watcher.close();
  await copying;
}
