import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";

const executable = "/usr/sbin/mosquitto";

/** A running Mosquitto. */
export interface Mosquitto {
  /** Everything that it has logged so far. */
  log(): string;
  /** Has it read its configuration and certificates again. Later connections see them. */
  reload(): Promise<void>;
  /** Kills it, and resolves once it has exited. Does nothing if it has already exited. */
  stop(): Promise<void>;
}

/**
 * Starts Mosquitto with a configuration file that logs to standard error; resolves once it reports that it is running.
 * **Errors**: if it is not installed, or exits first, with its log.
 */
export async function startMosquitto(configurationFile: string): Promise<Mosquitto> {
  if (!existsSync(executable)) throw new Error(`${executable} is missing: apt-get install mosquitto`);
  const child = spawn(executable, ["-c", configurationFile], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  await new Promise<void>((resolve, reject) => {
    child.stderr.on("data", (chunk: Buffer) => {
      log += chunk.toString();
      if (log.includes(" running")) resolve();
    });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`mosquitto exited with ${code}: ${log}`)));
  });
  return {
    log: () => log,
    reload: async () => {
      const before = log.length;
      child.kill("SIGHUP");
      while (!log.slice(before).includes("Reloading config")) await once(child.stderr, "data");
    },
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}
