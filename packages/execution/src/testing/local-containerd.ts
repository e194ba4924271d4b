import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A containerd for one test or benchmark. */
export interface LocalContainerd {
  readonly socket: string;
  readonly pid: number;
  /** Stops it as an upgrade would, or with `SIGKILL` like a crash; containers keep running. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Plugins that tests do not need: Kubernetes' runtime interface and special file systems. */
const disabledPlugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
];

/**
 * Starts a containerd with its files and socket below `dir` (a short path: a socket path has at most 107 bytes). Needs root. Throws if
 * containerd is not installed or exits before it is ready.
 */
export async function startLocalContainerd(dir: string): Promise<LocalContainerd> {
  mkdirSync(dir, { recursive: true, mode: 0o711 });
  const socket = join(dir, "containerd.sock");
  const config = join(dir, "config.toml");
  const text = (value: string): string => JSON.stringify(value);
  writeFileSync(
    config,
    [
      "version = 2",
      `root = ${text(join(dir, "root"))}`,
      `state = ${text(join(dir, "state"))}`,
      `disabled_plugins = [${disabledPlugins.map(text).join(", ")}]`,
      "[grpc]",
      `  address = ${text(socket)}`,
      "[ttrpc]",
      `  address = ${text(`${socket}.ttrpc`)}`,
    ].join("\n"),
  );
  const child = spawn("containerd", ["--config", config], { stdio: ["ignore", "ignore", "pipe"] });
  await booted(child);
  return {
    socket,
    pid: child.pid ?? 0,
    async stop(signal = "SIGTERM") {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.kill(signal);
      await gone;
    },
  };
}

function booted(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const last: string[] = [];
    child.once("error", reject);
    child.once("exit", () => reject(new Error(`containerd exited before it was ready: ${last.join("\n")}`)));
    if (child.stderr === null) return;
    createInterface({ input: child.stderr }).on("line", (line) => {
      last.push(line);
      if (last.length > 5) last.shift();
      if (line.includes("containerd successfully booted")) resolve();
    });
  });
}
