import { fork } from "node:child_process";
import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Options of {@link startDetached}. */
export interface DetachOptions {
  readonly dataDir: string;
  /** Arguments of `keelson`, starting with `up`. `--detach` is removed. */
  readonly args: readonly string[];
  /** Stops the start. */
  readonly signal: AbortSignal;
  /** Called with each line of output while it starts. */
  readonly print: (line: string) => void;
}

/** Result of {@link startDetached}. */
export type Detached =
  | { readonly kind: "ready"; readonly pid: number }
  /** `output`: what it wrote before it exited. */
  | { readonly kind: "failed"; readonly exitCode: number; readonly output: string };

/** Last line of the start-up of `keelson up`. */
export const readyLine = "ready";

/** Marks a process whose parent waits for {@link readyReporter}. */
const waitingParent = "KEELSON_DETACHED";

const program = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));

/**
 * Starts `keelson up` in its own session, which outlives this process and its terminal. Resolves when it is ready or has exited.
 * It writes its output to `DIR/keelson.out`.
 */
export async function startDetached({ dataDir, args, signal, print }: DetachOptions): Promise<Detached> {
  const file = join(dataDir, "keelson.out");
  const { O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;
  const out = openSync(file, O_CREAT | O_NOFOLLOW | O_TRUNC | O_WRONLY, 0o600);
  const child = fork(
    program,
    args.filter((arg) => arg !== "--detach" && arg !== "-d"),
    { detached: true, env: { ...process.env, [waitingParent]: "1" }, stdio: ["ignore", out, out, "ipc"] },
  );
  closeSync(out);
  const abort = (): void => void child.kill("SIGTERM");
  signal.addEventListener("abort", abort, { once: true });
  const exitCode = await new Promise<number | undefined>((resolve) => {
    child.once("message", () => resolve(undefined));
    child.once("error", () => resolve(1));
    child.once("exit", (code) => resolve(code ?? 1));
  });
  signal.removeEventListener("abort", abort);
  const output = readFileSync(file, "utf8");
  if (exitCode !== undefined) return { kind: "failed", exitCode, output };
  for (const line of output.split("\n")) {
    print(line);
    if (line === readyLine) break;
  }
  child.disconnect();
  child.unref();
  return { kind: "ready", pid: child.pid ?? 0 };
}

/** Returns what lets the process that started this one with `--detach` return. Call it once, before other processes are started. */
export function readyReporter(): () => void {
  const isAwaited = process.env[waitingParent] !== undefined;
  delete process.env[waitingParent];
  return () => {
    if (!isAwaited || process.send === undefined) return;
    process.send("ready", () => {
      if (process.connected) process.disconnect();
    });
  };
}
