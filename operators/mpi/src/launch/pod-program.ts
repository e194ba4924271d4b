import type { Clock } from "@keelson/api-machinery/time";
import { launchFailedExitCode } from "./launch-state.ts";
import { type LauncherOptions, runLauncher } from "./launcher.ts";
import {
  type LauncherEnvironment,
  launcherEnvironment,
  programEnvironment,
  rendezvousPort,
  workerEnvironment,
} from "./pod-environment.ts";
import { createReadySignal, readyPipePath } from "./ready-signal.ts";
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

/** Runs the launcher, and tells the probe that waits for it when it is ready. */
async function launch(common: Omit<LauncherOptions, keyof LauncherEnvironment | "port">): Promise<number> {
  const pipe = readyPipePath(process.env);
  const signal = pipe === undefined ? undefined : createReadySignal(pipe);
  const onReady = (): void => signal?.ready();
  try {
    return await runLauncher({ ...launcherEnvironment(process.env), ...common, port: rendezvousPort, onReady });
  } finally {
    signal?.close();
  }
}

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
    if (part === "launcher") return await launch(common);
    if (part === "worker") return await runWorker({ ...workerEnvironment(process.env), ...common });
    say("it has to be called with launcher or worker");
  } catch (error) {
    say(error instanceof Error ? error.message : String(error));
  }
  return launchFailedExitCode;
}

process.exitCode = await main(process.argv[2]);
