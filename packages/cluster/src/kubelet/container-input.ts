import { execFile, spawn } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { promisify } from "node:util";
import { defaultPath, type Program } from "@keelson/execution";
import type { ContainerView } from "./pod-view.ts";

/** Where the input of an attempt of a container with `stdin` comes from. */
export interface ContainerInput {
  readonly path: string;
  /** The command, its input coming from the pipe. */
  readonly command: readonly string[];
}

/**
 * Makes the named pipe that a container with `stdin: true` reads, and that `attach` writes. It outlives the kubelet, so a program
 * that waits for input goes on waiting after a restart.
 *
 * With `stdinOnce` the input ends when the first client's does, and the program starts when that client is there; otherwise the
 * program holds the pipe open itself, and its input never ends.
 */
export async function makeContainerInput(
  podDir: string,
  container: ContainerView,
  attempt: number,
  command: readonly string[],
): Promise<ContainerInput> {
  const path = join(podDir, "stdin", `${container.name}.${attempt}`);
  await mkdir(dirname(path), { recursive: true, mode: 0o755 });
  await rm(path, { force: true });
  await promisify(execFile)("mkfifo", ["--mode=0666", path]);
  const redirection = container.stdinOnce === true ? "<" : "<>";
  return { path, command: ["/bin/sh", "-c", `exec "$@" 0${redirection} "$0"`, path, ...command] };
}

/**
 * Copies what a client types to a container's program until either is gone. Does nothing where the container has no `stdin`, as
 * the kubelet does.
 *
 * A process of its own opens the pipe: that waits in the kernel until the program has come so far as to open its end, however
 * long that takes, and nobody has to try again.
 */
export function copyToContainer(program: Program, from: Readable): void {
  const path = program.spec.metadata?.["stdin"];
  from.on("error", () => {});
  if (path === undefined) {
    from.resume();
    return;
  }
  const copy = spawn("/bin/sh", ["-c", 'exec cat >"$0"', path], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: defaultPath },
  });
  copy.on("error", () => from.resume());
  copy.on("exit", () => from.resume());
  copy.stdin.on("error", () => {});
  // A program that ends before it has opened its input would leave it waiting for ever.
  void program.exited().then(() => copy.kill());
  from.on("close", () => copy.stdin.end());
  from.pipe(copy.stdin);
}
