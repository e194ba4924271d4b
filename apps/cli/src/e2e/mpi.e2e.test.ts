import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Job, Pod, Secret } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { RhinoJob } from "@keelson/mpi";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { startKeelson } from "../testing/keelson-process.ts";
import { killAndRestart } from "../testing/kill.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { programsOf } from "../testing/processes-of.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/* Each test continues with the `keelson up` that the previous one restarted. */

const namespace = "default";
const timeout = 180_000;
const flags = ["--only", "cluster,mpi"];
const source = fileURLToPath(new URL("../../../../examples/mpi/pi.c", import.meta.url));

const folder = temporaryFolder();
let keelson: TestKeelson;

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, ...flags);
});
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** A directory for the ranks of one test, with the pi example compiled with Open MPI. Releases them even if the test fails. */
function rankFolder(): { readonly dir: string; readonly go: () => void } {
  const dir = mkdtempSync(join(folder.path, "ranks-"));
  const go = (): void => writeFileSync(join(dir, "go"), "");
  onTestFinished(() => void (existsSync(dir) && go()));
  execFileSync("mpicc.openmpi", ["-O1", "-o", join(dir, "pi"), source]);
  return { dir, go };
}

/** Two ranks that record their start, wait for the file `go`, and then execute the example's program. */
const spec = (dir: string): RhinoJob["spec"] =>
  ({
    image: "local",
    parallelism: 2,
    mpiImplementation: "OpenMPI",
    workingDir: dir,
    appExec: "/bin/sh",
    appArgs: ["-c", "echo ran >> ran; while [ ! -e go ]; do sleep 0.1; done; exec ./pi 1000"],
  }) as RhinoJob["spec"];

const isRunning = (client: Client) => watched(client, RhinoJob, "pi", (each) => each?.status?.jobStatus === "Running");

/** When to kill, and what happens before the restart. */
const moments: Readonly<Record<string, { reach: (client: Client) => Promise<unknown>; endsMeanwhile?: true }>> = {
  "when it was just made": { reach: () => Promise.resolve() },
  "when its launcher's Job was made": {
    reach: (client) => watched(client, RhinoJob, "pi", (each) => each?.status?.startTime !== undefined),
  },
  "while its ranks run": { reach: isRunning },
  "and it ends in the meantime": { reach: isRunning, endsMeanwhile: true },
};

test.for(Object.keys(moments))(
  "kill -9 of up %s: the job completes, runs nothing twice and leaves nothing behind",
  { timeout },
  async (when) => {
    const { dir, go } = rankFolder();
    const before = await keelson.client();
    await before.create(RhinoJob, { metadata: { name: "pi", namespace }, spec: spec(dir) });
    await moments[when]?.reach(before);
    await before.close();
    if (moments[when]?.endsMeanwhile) {
      await expect.poll(() => existsSync(join(dir, "ran")) && readFileSync(join(dir, "ran"), "utf8")).toBe("ran\nran\n");
      expect(programsOf(folder.path, "orted")).not.toEqual([]);
      keelson.process.child.kill("SIGKILL");
      await keelson.process.exited;
      go();
      await expect.poll(() => programsOf(folder.path, "orted")).toEqual([]);
    }
    keelson = await killAndRestart(keelson, folder.path, ...flags);
    const client = await keelson.client();
    onTestFinished(() => client.close());
    go();
    const done = await watched(client, RhinoJob, "pi", (each) => each?.status?.completionTime !== undefined);
    expect(done?.status).toMatchObject({ jobStatus: "Completed", exitCode: 0 });
    expect(readFileSync(join(dir, "ran"), "utf8")).toBe("ran\nran\n");
    const logs = startKeelson(["mpi", "logs", "pi"], { env: { KUBECONFIG: keelson.kubeconfig } });
    expect(await logs.exited).toBe(0);
    // Open MPI may print a warning about an internal race on a busy machine.
    expect(logs.output().match(/^pi is .*$/gm)).toEqual(["pi is 3.14159274, by 2 ranks and 1000 strips"]);

    await client.delete(RhinoJob, { namespace, name: "pi" }, { propagationPolicy: "Foreground" });
    await watched(client, RhinoJob, "pi", (each) => each === undefined);
    for (const type of [Job, Pod]) expect((await client.list<never>(type as never, { namespace })).items).toEqual([]);
    const secrets = (await client.list(Secret, { namespace })).items.filter(({ type }) => type === "openrhino.org/token");
    expect(secrets).toEqual([]);
    await expect.poll(() => [...programsOf(dir), ...programsOf(folder.path, "pod-program.js")]).toEqual([]);
  },
);

test("run streams the ranks' output and exits with their status; logs -f follows until the end", {
  timeout,
}, async () => {
  const { dir, go } = rankFolder();
  const env = { KUBECONFIG: keelson.kubeconfig };
  const program = "echo one is up; while [ ! -e go ]; do sleep 0.1; done; exec ./pi 1000 7";
  const run = startKeelson(["mpi", "run", "-n", "2", "--name", "pi", "--mpi", "OpenMPI", "--", "/bin/sh", "-c", program], {
    env,
    cwd: dir,
  });
  await run.printed(/(one is up[^]*){2}/);
  const follow = startKeelson(["mpi", "logs", "--follow", "--workers", "pi"], { env });
  await follow.printed(/(pi-\w+-launcher-\w+: one is up\n){2}/);
  expect(run.child.exitCode).toBeNull();
  go();
  expect(await run.exited).toBe(7);
  expect(run.output()).toContain("pi is 3.14159274, by 2 ranks and 1000 strips\n");
  expect(run.output()).toMatch(/pi: Failed: rank [01] on worker [01] failed: exit code 7/);
  expect(await follow.exited).toBe(0);
  expect(follow.output()).toMatch(/launcher-\w+: pi is 3.14159274/);
  const client = await keelson.client();
  onTestFinished(() => client.close());
  const { workerPodNames = [] } = (await client.get(RhinoJob, { namespace, name: "pi" })).status ?? {};
  expect(workerPodNames).toHaveLength(2);
  for (const name of workerPodNames)
    expect((await client.get(Pod, { namespace, name })).metadata.deletionTimestamp).toBeUndefined();
  const late = startKeelson(["mpi", "logs", "-f", "pi"], { env });
  expect(await late.exited).toBe(0);
  expect(late.output()).toContain("pi is 3.14159274");

  const tool = join(dir, "only-on-the-callers-path");
  writeFileSync(tool, "#!/bin/sh\nexec cat\n", { mode: 0o755 });
  const reads = startKeelson(["mpi", "run", "-n", "2", "--mpi", "OpenMPI", "--", "only-on-the-callers-path"], {
    env: { ...env, PATH: `${dir}:${process.env.PATH}` },
    cwd: dir,
    input: "from the caller\n",
  });
  expect(await reads.exited).toBe(0);
  expect(reads.output().match(/^from the caller$/gm)).toHaveLength(1);

  await client.deleteCollection(RhinoJob, { namespace });
  await expect.poll(async () => (await client.list(RhinoJob, { namespace })).items).toEqual([]);
});

test("run stops its ranks when interrupted", { timeout }, async () => {
  const { dir } = rankFolder();
  const env = { KUBECONFIG: keelson.kubeconfig };
  const words = ["mpi", "run", "-n", "2", "--name", "stay", "--mpi", "OpenMPI", "--", "/bin/sh", "-c"];
  const run = startKeelson([...words, `echo one is up; exec sleep 600 # ${dir}`], { env, cwd: dir });
  await run.printed(/(one is up[^]*){2}/);
  expect(programsOf(dir)).not.toEqual([]);
  run.child.kill("SIGINT");
  expect(await run.exited).toBe(130);
  expect(run.output()).toContain("stay: interrupted and deleted");
  const client = await keelson.client();
  onTestFinished(() => client.close());
  await watched(client, RhinoJob, "stay", (each) => each === undefined);
  await expect.poll(() => [...programsOf(dir), ...programsOf(folder.path, "pod-program.js")]).toEqual([]);
});
