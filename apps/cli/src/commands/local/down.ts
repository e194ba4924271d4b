import { resolve } from "node:path";
import { sleep, systemClock } from "@keelson/api-machinery/time";
import { listenForShutdown } from "@keelson/controller";
import { folderHolder } from "@keelson/execution/files";
import type { FlagValues } from "@keelson/operator";
import { durationFlag } from "@keelson/operator/flags";
import { addFlag, flagValues } from "../../command-line.ts";
import { dataDirFlag } from "./data-dir-flag.ts";
import type { DefineCommand } from "../commands.ts";

const timeoutFlag = durationFlag({ name: "timeout", description: "how long to wait for it to stop", default: "60s" });

/** Node.js offers no event for the exit of a process that is not a child. */
const pollMs = 50;

/** Defines `keelson down`. */
export const defineDownCommand: DefineCommand = (command, setExitCode) => {
  for (const flag of [dataDirFlag, timeoutFlag]) addFlag(command, flag);
  command.action(async () => setExitCode(await down(flagValues(command))));
};

async function down(flags: FlagValues): Promise<number> {
  const dataDir = resolve(dataDirFlag.read(flags));
  const deadline = systemClock.monotonic() + timeoutFlag.read(flags);
  const pid = folderHolder(dataDir);
  if (pid === undefined) {
    process.stdout.write(`keelson up does not run in ${dataDir}\n`);
    return 0;
  }
  process.kill(pid, "SIGTERM");
  const shutdown = listenForShutdown();
  try {
    while (folderHolder(dataDir) === pid) {
      if (systemClock.monotonic() > deadline) {
        process.stderr.write(`keelson: process ${pid} has not stopped yet; see ${resolve(dataDir, "keelson.log")}\n`);
        return 1;
      }
      await sleep(systemClock, pollMs, shutdown.signal);
    }
  } catch (error) {
    if (error === shutdown.signal.reason) return 130;
    throw error;
  } finally {
    shutdown.dispose();
  }
  process.stdout.write("stopped; Pods and sandboxes keep running until the next keelson up, which adopts them\n");
  return 0;
}
