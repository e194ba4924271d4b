import { setMaxListeners } from "node:events";
import { resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { startEventLoopWatchdog } from "@keelson/cluster/watchdog";
import type { Logger } from "@keelson/controller";
import { aborted, listenForShutdown } from "@keelson/controller/shutdown";
import { logLevelFlag, UsageError } from "@keelson/operator/flags";
import { createLogger } from "../../logger.ts";
import type { ComponentConfig, ComponentMessage, SupervisorMessage } from "./messages.ts";
import { startIdleCollection } from "./idle-collection.ts";

/** What a component starts with. */
export interface ComponentContext {
  readonly log: Logger;
  /** Aborts when the component must stop. */
  readonly signal: AbortSignal;
  /** Reports that a part has started. */
  readonly onStarted: (name: string, description: string) => void;
}

/** A running component. */
export interface RunningComponent {
  /** Addresses by name. */
  readonly endpoints: Readonly<Record<string, string>>;
  /** Rejects when the component failed permanently. */
  readonly failed: Promise<never>;
  stop(): Promise<void>;
}

/** An event loop that is blocked for longer is reported. */
const stallThresholdMs = 2_000;

/**
 * Runs one component of `keelson up` in this process until its parent stops it. If the parent dies, the process exits immediately: the
 * data directory then looks as it does after a crash. Resolves to the exit status.
 */
export async function runComponent(
  start: (config: ComponentConfig, context: ComponentContext) => Promise<RunningComponent>,
): Promise<number> {
  process.once("disconnect", () => process.exit(1));
  if (!process.connected) return 1;
  const stopped = new AbortController();
  const config = await receiveConfig(stopped);
  if (config === undefined) return 0;
  const log = createLogger({
    level: logLevelFlag.read({ "log-level": config.logLevel }),
    file: resolve(config.dataDir, "keelson.log"),
  });
  const shutdown = listenForShutdown({ faults: { log } });
  const signal = AbortSignal.any([stopped.signal, shutdown.signal]);
  // Every request of the start-up listens to it.
  setMaxListeners(0, signal);
  const watchdog = startEventLoopWatchdog({
    thresholdMs: stallThresholdMs,
    name: `keelson ${config.component}`,
    onStall: ({ blockedMs, stack }) => log.warn({ component: config.component, blockedMs, stack }, "event loop was blocked"),
  });
  const collection = startIdleCollection(systemClock);
  try {
    const running = await start(config, {
      log,
      signal,
      onStarted: (name, description) => void send({ type: "started", name, description }),
    });
    try {
      await send({ type: "ready", endpoints: running.endpoints });
      await Promise.race([aborted(signal), running.failed]);
    } finally {
      await running.stop();
    }
    return shutdown.fault === undefined ? 0 : 1;
  } catch (error) {
    if (stopped.signal.aborted) return 0;
    log.error({ err: error, component: config.component }, "component failed");
    const message = error instanceof Error ? error.message : String(error);
    await send({ type: "failed", message, isUsageError: error instanceof UsageError });
    return 1;
  } finally {
    collection.stop();
    await watchdog.stop();
    shutdown.dispose();
  }
}

/** Waits for the parent's configuration. Resolves to `undefined` if it requests a stop first; later requests abort `stopped`. */
function receiveConfig(stopped: AbortController): Promise<ComponentConfig | undefined> {
  return new Promise((received) => {
    process.on("message", (message: SupervisorMessage) => {
      if (message.type === "start") return received(message.config);
      stopped.abort(new Error("stopped"));
      received(undefined);
    });
  });
}

function send(message: ComponentMessage): Promise<void> {
  return new Promise((sent) => {
    if (process.send === undefined || !process.connected) sent();
    else process.send(message, undefined, undefined, () => sent());
  });
}
