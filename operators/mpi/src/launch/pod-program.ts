import type { Clock } from "@keelson/api-machinery";
import { launchFailedExitCode } from "./launch-state.ts";
import { runLauncher } from "./launcher.ts";
import { launcherEnvironment, programEnvironment, rendezvousPort, workerEnvironment } from "./pod-environment.ts";
import { runWorker } from "./worker.ts";

/*
 * What runs in the Pods of a RhinoJob: `node pod-program.js launcher` or `worker`. It needs Node and the files beside it and
 * nothing else, so that it can be put into any image.
 */

const clock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(delayMs, callback, options) {
    const handle = setTimeout(callback, Math.min(delayMs, 2 ** 31 - 1));
    if (options?.background) handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
};

async function main(part: string | undefined): Promise<number> {
  const stop = new AbortController();
  process.on("SIGTERM", () => stop.abort());
  process.on("SIGINT", () => stop.abort());
  const say = (message: string): void => void process.stderr.write(`keelson mpi ${part}: ${message}\n`);
  const common = {
    workingDirectory: process.cwd(),
    environment: programEnvironment(process.env),
    clock,
    signal: stop.signal,
    say,
  };
  try {
    if (part === "launcher") return await runLauncher({ ...launcherEnvironment(process.env), ...common, port: rendezvousPort });
    if (part === "worker") return await runWorker({ ...workerEnvironment(process.env), ...common });
    say("it has to be called with launcher or worker");
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
  }
  return launchFailedExitCode;
}

process.exitCode = await main(process.argv[2]);
