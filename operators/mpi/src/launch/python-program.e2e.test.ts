import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AddressBlock, reserveAddressBlock } from "@keelson/cluster/testing";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { type PodProcess, startLauncherProcess, startWorkerProcess } from "../testing/pod-processes.ts";

const program = fileURLToPath(new URL("../../../../examples/mpi/heat.py", import.meta.url));
/** Debian's Python, which has mpi4py. Another one may come first on the PATH. */
const python = "/usr/bin/python3";
const token = "a-token-of-this-test";
let folder: string;
let addresses: AddressBlock;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "mpi-python-"));
  addresses = await reserveAddressBlock(folder);
  // Without pip, which Debian packages separately.
  execFileSync(python, ["-m", "venv", "--without-pip", "--system-site-packages", join(folder, "venv")]);
});
afterAll(async () => {
  await addresses.release();
  rmSync(folder, { recursive: true, force: true });
});

it.each([
  ["the system's Python", () => python, 1],
  ["a virtual environment", () => join(folder, "venv/bin/python"), 2],
])("runs a program in Python with mpi4py, from %s", async (_, interpreter, host) => {
  const podIP = `${addresses.podNetwork}.0.${host}`;
  const order = { implementation: "Auto", ranks: 3, command: [interpreter(), program, "32", "50"] } as const;
  const workers = [0, 1, 2].map((index) => startWorkerProcess(podIP, token, index, { cwd: folder }));
  const launcher = startLauncherProcess(podIP, token, order, { cwd: folder });
  onTestFinished(() => [launcher, ...workers].forEach(end));
  expect(await launcher.done).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/^32 cells, 50 steps, 3 ranks: [\d.]+ degrees in total\n$/),
  });
  for (const each of workers) expect(await each.done).toMatchObject({ exitCode: 0 });
});

function end({ child }: PodProcess): void {
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
}
