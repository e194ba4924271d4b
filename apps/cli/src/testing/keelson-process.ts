import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export { startIdleCollection } from "../local/processes/idle-collection.ts";
export { componentOptions } from "../local/processes/v8-options.ts";

const command = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));

/** A running `keelson` process, or another Node.js program. */
export interface KeelsonProcess {
  readonly child: ChildProcess;
  /** All output so far, standard output and standard error combined. */
  output(): string;
  /** Resolves to the first match of `pattern` in the output. Rejects if the process exits or `timeoutMs` (default 60000) passes first. */
  printed(pattern: RegExp, timeoutMs?: number): Promise<RegExpMatchArray>;
  /** Resolves to the exit status, or to the name of the signal that ended the process. */
  readonly exited: Promise<number | NodeJS.Signals>;
  /** Sends SIGTERM and waits for the process to exit. */
  stop(): Promise<number | NodeJS.Signals>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Options of {@link startKeelson}. */
interface StartOptions {
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: this process's working directory. */
  readonly cwd?: string;
  /** Standard input. Default: none. */
  readonly input?: string;
  /** User and group id to run as; requires root. Default: this process's own. */
  readonly user?: number;
}

/** Starts the built command line with `args` and captures its output. For tests and benchmarks. */
export function startKeelson(args: readonly string[], options: StartOptions = {}): KeelsonProcess {
  return startNodeProgram([command, ...args], options);
}

/** A descriptor of the root directory that every process of {@link startKeelson} inherits. No program that it runs may get it. */
export const inheritedDescriptor = 40;

/** Starts Node.js with {@link inheritedDescriptor}. */
function spawnNode(args: readonly string[], options: StartOptions): ChildProcess {
  const unused = Array.from({ length: inheritedDescriptor - 3 }, () => "ignore" as const);
  const root = openSync("/", "r");
  try {
    return spawn(process.execPath, args, {
      stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe", ...unused, root],
      env: { ...process.env, ...options.env },
      ...(options.cwd ? { cwd: options.cwd } : {}),
      ...(options.user === undefined ? {} : { uid: options.user, gid: options.user }),
    });
  } finally {
    closeSync(root);
  }
}

/** Starts Node.js with `args`, otherwise like {@link startKeelson}. */
export function startNodeProgram(args: readonly string[], options: StartOptions = {}): KeelsonProcess {
  const child = spawnNode(args, options);
  child.stdin?.end(options.input);
  let text = "";
  const watchers = new Set<() => void>();
  let ended: number | NodeJS.Signals | undefined;
  const notify = (): void => {
    for (const watcher of [...watchers]) watcher();
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8");
    stream?.on("data", (chunk: string) => {
      text += chunk;
      notify();
    });
  }
  const exited = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once("close", (code, signal) => {
      ended = code ?? signal ?? 1;
      notify();
      resolve(ended);
    });
  });
  const stop = (): Promise<number | NodeJS.Signals> => {
    if (ended === undefined) child.kill("SIGTERM");
    return exited;
  };
  return {
    child,
    output: () => text,
    printed: (pattern, timeoutMs = 60_000) =>
      new Promise((resolve, reject) => {
        const settle = (act: () => void): void => {
          clearTimeout(timer);
          watchers.delete(look);
          act();
        };
        const describe = (why: string): Error => new Error(`${why} before printing ${pattern}. It printed:\n${text}`);
        const look = (): void => {
          const match = text.match(pattern);
          if (match) settle(() => resolve(match));
          else if (ended !== undefined) settle(() => reject(describe(`node ${args.join(" ")} ended with ${ended}`)));
        };
        const timer = setTimeout(() => settle(() => reject(describe(`${timeoutMs} ms passed`))), timeoutMs);
        watchers.add(look);
        look();
      }),
    exited,
    stop,
    async [Symbol.asyncDispose]() {
      await stop();
    },
  };
}

/** Arguments of `keelson up` with free ports and its data below `dir`. */
export function upArguments(dir: string, ...more: readonly string[]): string[] {
  return ["up", "--data-dir", join(dir, "keelson"), "--api-port", "0", "--mqtt-port", "0", "--fastpath-port", "0", ...more];
}
