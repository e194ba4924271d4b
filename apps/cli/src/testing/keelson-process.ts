import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const command = fileURLToPath(new URL("../../bin/keelson.js", import.meta.url));

/** A `keelson` process, or another program of Node.js. */
export interface KeelsonProcess {
  readonly child: ChildProcess;
  /** Everything it printed so far, standard output and error together. */
  output(): string;
  /** Resolves with the first match of `pattern` in what it prints. Rejects when it ends or `timeoutMs` (default 30000) passes first. */
  printed(pattern: RegExp, timeoutMs?: number): Promise<RegExpMatchArray>;
  /** Resolves with its exit status, or the name of the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
  /** Sends SIGTERM and waits for its end. */
  stop(): Promise<number | NodeJS.Signals>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** How a process is started. */
interface StartOptions {
  /** Besides this process's own. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: this process's own. */
  readonly cwd?: string;
  /** The user and group that it runs as, where this process may change them. Default: this process's own. */
  readonly user?: number;
}

/** Starts the built command line with these arguments, and a pipe for what it prints. For tests and benchmarks. */
export function startKeelson(args: readonly string[], options: StartOptions = {}): KeelsonProcess {
  return startNodeProgram([command, ...args], options);
}

/** Starts Node.js with these arguments, as {@link startKeelson} starts the command line. */
export function startNodeProgram(args: readonly string[], options: StartOptions = {}): KeelsonProcess {
  const child = spawn(process.execPath, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...options.env },
    ...(options.cwd ? { cwd: options.cwd } : {}),
    ...(options.user === undefined ? {} : { uid: options.user, gid: options.user }),
  });
  let text = "";
  const watchers = new Set<() => void>();
  let ended: number | NodeJS.Signals | undefined;
  const notify = (): void => {
    for (const watcher of [...watchers]) watcher();
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (chunk: string) => {
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
    printed: (pattern, timeoutMs = 30_000) =>
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

/** Arguments of `keelson up` on free ports below `dir`. */
export function upArguments(dir: string, ...more: readonly string[]): string[] {
  return ["up", "--data-dir", join(dir, "keelson"), "--api-port", "0", "--mqtt-port", "0", "--fastpath-port", "0", ...more];
}
