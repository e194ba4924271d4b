import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readlinkSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import { AgentError, type SnapshotOutcome } from "@keelson/middleware-agent";

/** Maximum length of the output that is kept. The result is at its end. */
const maxOutputLength = 16_384;

/** The checker reads a file: a pipe has a path, unlike the sockets that Node.js gives to children. */
const script = 'cat | "$0" /dev/stdin';

/**
 * Runs the RDB checker that is part of every redis-server and valkey-server on a stream. It verifies the format version, the structure
 * and the checksum, and counts the keys.
 */
export class RdbCheck {
  readonly #child;
  readonly #ended: Promise<SnapshotOutcome>;

  /** `folder`: for a link to the program. **Errors**: {@link AgentError} `SnapshotFailed` if it cannot be created. */
  constructor(program: string, folder: string) {
    this.#child = spawn("sh", ["-c", script, checkerOf(program, folder)], { stdio: ["pipe", "pipe", "pipe"] });
    let output = "";
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream.on("data", (chunk: Buffer) => {
        output = (output + chunk.toString("utf8")).slice(-maxOutputLength);
      });
    // A checker that has found an error does not read the rest.
    this.#child.stdin.on("error", () => undefined);
    this.#ended = new Promise((resolve) => {
      this.#child.once("error", (error) => resolve({ ok: false, error: `the checker could not start: ${error.message}` }));
      this.#child.once("close", () => resolve(readResult(output)));
    });
  }

  /** Passes bytes on. Resolves when the checker can take more; false if it has ended. */
  async write(chunk: Uint8Array): Promise<boolean> {
    const { stdin } = this.#child;
    if (stdin.destroyed || stdin.writableEnded) return false;
    if (stdin.write(chunk)) return true;
    await Promise.race([new Promise((resolve) => stdin.once("drain", resolve)), this.#ended]);
    return !stdin.destroyed;
  }

  /** Ends the stream. Resolves to the result. */
  end(): Promise<SnapshotOutcome> {
    this.#child.stdin.end();
    return this.#ended;
  }

  /** Ends the checker without a result. */
  cancel(): void {
    this.#child.stdin.destroy();
  }
}

/**
 * The name of a program decides whether it is the server or the checker, so this is a link to the server with the checker's name. It stays,
 * because the volume that it is in may be full later.
 */
function checkerOf(program: string, folder: string): string {
  const link = join(folder, basename(program).startsWith("valkey") ? "valkey-check-rdb" : "redis-check-rdb");
  const draft = `${link}-${process.pid}`;
  try {
    const target = findProgram(program);
    if (existsSync(link) && readlinkSync(link) === target) return link;
    mkdirSync(folder, { recursive: true });
    rmSync(draft, { force: true });
    symlinkSync(target, draft);
    renameSync(draft, link);
    return link;
  } catch (error) {
    throw new AgentError("SnapshotFailed", `could not start the checker: ${String(error)}`, { cause: error });
  }
}

/** The path of a program in `PATH`. */
function findProgram(program: string): string {
  if (program.includes("/")) return program;
  const paths = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, program));
  const found = paths.find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${program} not found in PATH`);
  return found;
}

function readResult(output: string): SnapshotOutcome {
  const count = (label: string): number => Number(new RegExp(`\\[info\\] (\\d+) ${label}`).exec(output)?.[1] ?? 0);
  if (output.includes("RDB looks OK!")) return { ok: true, keys: count("keys read"), expiringKeys: count("expires") };
  const lines = output
    .split("\n")
    .map((line) => line.replace(/^\[(offset \d+|info|additional info)\]\s*/, "").trim())
    .filter((line) => line !== "" && !/^(AUX FIELD|Selecting DB|Checking RDB|\d+ )/.test(line) && !line.startsWith("---"));
  return { ok: false, error: lines.slice(0, 3).join("; ") || "the checker exited without a result" };
}
