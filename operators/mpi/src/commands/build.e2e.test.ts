import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { buildCommand } from "./build.ts";

const source = fileURLToPath(new URL("../../../../examples/mpi/pi.c", import.meta.url));
let folder: string;
let makefile: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "mpi-build-"));
  makefile = join(folder, "src/Makefile");
  mkdirSync(join(folder, "src"));
  copyFileSync(source, join(folder, "src/pi.c"));
  writeFileSync(makefile, "mpi-func: pi.c\n\t$(CC) -o $@ $<\nplain:\n\techo 'int main(){}' | gcc -x c -o $@ -\n");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function build(args: readonly string[], flags: Readonly<Record<string, string>>) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const output = Promise.all([text(stdout), text(stderr)]);
  const context = { args, stdout, stderr, clock: systemClock, log: silentLogger, signal: new AbortController().signal };
  const client = () => Promise.reject(new Error("no cluster is needed"));
  const exitCode = await buildCommand.run({ ...context, client, flags: { file: makefile, ...flags } });
  for (const stream of [stdout, stderr]) stream.end();
  const [out, err] = await output;
  return { exitCode, out, err };
}

/** Unpacks the layers of an OCI archive. */
function unpack(archive: string): string {
  const [parts, root] = [join(folder, "parts"), join(folder, "root")];
  for (const each of [parts, root]) mkdirSync(each);
  spawnSync("tar", ["-xf", archive, "-C", parts]);
  const blobs = join(parts, "blobs/sha256");
  for (const blob of readdirSync(blobs)) spawnSync("tar", ["-xzf", join(blobs, blob), "-C", root], { stdio: "ignore" });
  return root;
}

it.each([
  ["OpenMPI", "--allow-run-as-root --oversubscribe -mca plm_rsh_agent /bin/sh"],
  ["MPICH", ""],
])("builds an image with a program, %s and everything that both need", async (implementation, options) => {
  const file = join(folder, "pi.tar");
  const image = "registry.example/team/pi:1";
  const built = await build([`CC=mpicc.${implementation.toLowerCase()}`], { image, output: file });
  expect(built.exitCode, built.err).toBe(0);
  expect(built.out).toMatch(new RegExp(`^pi\\.tar  ${image}  ${implementation}  [\\d.]+ MB  sha256:[0-9a-f]{64}\n$`));
  const script = `export PATH=/usr/bin:/bin; mkfifo /tmp/pipe && mpiexec ${options} -n 2 /app/mpi-func 1000`;
  const run = spawnSync(
    "bwrap",
    [
      // The time limit below ends everything in it.
      ...["--unshare-pid", "--die-with-parent"],
      "--bind",
      unpack(file),
      "/",
      "--proc",
      "/proc",
      "--dev",
      "/dev",
      "--ro-bind",
      "/sys",
      "/sys",
      "--clearenv",
      "/bin/sh",
      "-c",
      script,
    ],
    { encoding: "utf8", timeout: 120_000, killSignal: "SIGKILL" },
  );
  expect([run.status, run.stdout], run.stderr).toEqual([0, "pi is 3.14159274, by 2 ranks and 1000 strips\n"]);
});

it.each([
  [{}, [], 2, "--image must be set"],
  [{ image: "a b" }, [], 2, "--image a b: must be of the form [REGISTRY/]NAME[:TAG]"],
  [{ image: "pi", file: "/nonexistent/Makefile" }, [], 1, "/nonexistent/Makefile not found"],
  [{ image: "pi" }, ["nothing"], 1, "make exited with 2"],
  [{ image: "pi" }, ["plain"], 1, "make built no mpi-func in"],
  [{ image: "pi", program: "plain" }, ["plain"], 1, "plain is not linked with Open MPI or MPICH"],
])("rejects %j with make arguments %j", async (flags, args, exitCode, message) => {
  const built = await build(args, { output: join(folder, "pi.tar"), ...flags });
  expect(built.exitCode).toBe(exitCode);
  expect(built.err).toContain(message);
  expect(existsSync(join(folder, "pi.tar"))).toBe(false);
});
