import type { Clock } from "@keelson/api-machinery/time";
import { createCheckpointFolder, runBefore } from "./checkpoint.ts";
import { launchFailedExitCode } from "./exit-codes.ts";
import { type LauncherOptions, runLauncher } from "./launcher/launcher.ts";
import {
  type LauncherEnvironment,
  launcherEnvironment,
  programEnvironment,
  rendezvousPort,
  workerEnvironment,
} from "./pod-environment.ts";
import { createReadySignal, readyPipePath } from "./ready-signal.ts";
import { runSession } from "./session/session.ts";
import { runWorker } from "./worker.ts";

/*
 * The program in the Pods of a RhinoJob: `node pod-program.js launcher` or `worker`. It requires only Node and the files of this directory,
 * so that it can be copied into any image.
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

/** Runs the launcher, with worker 0 if its Pod is one, and reports its readiness to the startup probe. */
async function launch(common: Omit<LauncherOptions, keyof LauncherEnvironment | "port">): Promise<number> {
  const pipe = readyPipePath(process.env);
  const signal = pipe === undefined ? undefined : createReadySignal(pipe);
  const onReady = (): void => signal?.ready();
  const launcherOver = new AbortController();
  try {
    const environment = launcherEnvironment(process.env);
    const { token, podIP: host, order } = environment;
    const stop = AbortSignal.any([common.signal, launcherOver.signal]);
    createCheckpointFolder(common.environment);
    if (order.before !== undefined) await runBefore(order.before, common);
    const address = { token, host, port: rendezvousPort };
    const worker = order.launcherIsWorker === true ? runWorker({ ...common, ...address, index: 0, signal: stop }) : undefined;
    try {
      const run = order.hosts === undefined ? runLauncher : runSession;
      return await run({ ...environment, ...common, port: rendezvousPort, onReady });
    } finally {
      // The launcher has ended the worker, unless it failed to start.
      launcherOver.abort();
      await worker;
    }
  } finally {
    signal?.close();
  }
}

async function main(part: string | undefined): Promise<number> {
  const stop = new AbortController();
  process.on("SIGTERM", () => stop.abort());
  process.on("SIGINT", () => stop.abort());
  const log = (message: string): void => void process.stderr.write(`keelson mpi ${part}: ${message}\n`);
  const common = {
    workingDirectory: process.cwd(),
    environment: programEnvironment(process.env),
    clock,
    signal: stop.signal,
    log,
    writeError: (text: string): void => void process.stderr.write(text),
    output: process.stdout,
  };
  try {
    if (part === "launcher") return await launch(common);
    if (part === "worker") createCheckpointFolder(common.environment);
    if (part === "worker") return await runWorker({ ...workerEnvironment(process.env), ...common });
    log("the first argument must be launcher or worker");
  } catch (error) {
    log(error instanceof Error ? error.message : String(error));
  }
  return launchFailedExitCode;
}

process.title = `keelson-mpi-${process.argv[2] ?? ""}`;
// No `await`: the bundle of this program is a CommonJS module, which loads faster.
void main(process.argv[2]).then((exitCode) => {
  process.exitCode = exitCode;
});
