import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { Namespace } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { MPIJob } from "../api/mpi-job.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import { commands } from "./commands.ts";

let environment: TestEnvironment;
let client: Client;
let tests = 0;
/** A namespace of the test. */
let namespace: string;

beforeAll(async () => {
  environment = await startTestEnvironment({ crds: [RhinoJob.crd, MPIJob.crd] });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
});
beforeEach(async () => {
  tests += 1;
  namespace = `test-${tests}`;
  await client.create(Namespace, { metadata: { name: namespace } });
});
afterAll(() => environment.stop());

/** Runs a command, and returns its exit status and output. */
async function run(name: string, args: string[], flags: Record<string, string | true> = {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const output = Promise.all([text(stdout), text(stderr)]);
  const exitCode = await commands
    .find((each) => each.name === name)
    ?.run({
      ...{ args, flags: { ...flags, namespace }, stdout, stderr, clock: createVirtualClock(), log: silentLogger },
      signal: new AbortController().signal,
      client: () => Promise.resolve(createClient({ transport: environment.transport(), fieldManager: "keelson" })),
    })
    .finally(() => {
      stdout.end();
      stderr.end();
    });
  const [out, err] = await output;
  return { exitCode, out, err };
}

const container = { name: "c", image: "x", command: ["mpirun", "pi"] };
const createMpiJob = (name: string) =>
  client.create(MPIJob, {
    metadata: { name, namespace },
    spec: { mpiReplicaSpecs: { Launcher: { template: { spec: { containers: [container] } } } } },
  });
const createRhinoJob = (name: string) =>
  client.create(RhinoJob, { metadata: { name, namespace }, spec: { image: "x", appExec: "./pi" } as RhinoJob["spec"] });
const setStatus = (name: string, status: MPIJob["status"]) =>
  client.patch(MPIJob, { namespace, name }, { type: "merge", body: { status } }, { subresource: "status" });

describe("keelson mpi with jobs of both kinds", () => {
  it("waits for an MPIJob and exits with its status", async () => {
    await createMpiJob("v2");
    const waiting = run("wait", ["v2"]);
    await setStatus("v2", { jobStatus: "Failed", message: "the command failed", exitCode: 3 });
    expect(await waiting).toEqual({ exitCode: 3, out: "v2: Failed: the command failed\n", err: "" });
  });

  it("suspends, resumes, cancels and deletes MPIJobs", async () => {
    await createMpiJob("v2");
    const get = () => client.get(MPIJob, { namespace, name: "v2" });
    expect(await run("suspend", ["v2"])).toEqual({ exitCode: 0, out: "job v2 suspended\n", err: "" });
    expect((await get()).spec.runPolicy?.suspend).toBe(true);
    expect((await run("resume", ["mpijob/v2"])).out).toBe("job mpijob/v2 resumed\n");
    expect((await get()).spec.runPolicy?.suspend).toBe(false);
    expect((await run("cancel", ["v2"])).exitCode).toBe(0);
    expect((await get()).metadata.annotations).toEqual({ "openrhino.org/cancel": "true" });
    expect(await run("delete", ["v2"])).toEqual({ exitCode: 0, out: "job v2 deleted\n", err: "" });
    expect(await run("delete", ["v2"])).toMatchObject({ exitCode: 1, err: `job v2 not found in namespace ${namespace}\n` });
  });

  it("says that an MPIJob has no output yet, and that its output has no labels", async () => {
    await createMpiJob("v2");
    expect(await run("logs", ["v2"])).toMatchObject({ exitCode: 1, err: "v2 has no output yet: Pending: \n" });
    expect((await run("logs", ["v2"], { rank: "1" })).err).toBe(
      "the output of v2 has no labels of ranks; an MPIJob starts mpirun itself\n",
    );
  });

  it.each(["wait", "logs", "top", "explain", "suspend", "resume", "cancel", "delete"])(
    "needs the kind in %s if jobs of both kinds have the name",
    async (command) => {
      await createMpiJob("pi");
      await createRhinoJob("pi");
      await expect(run(command, ["pi"])).rejects.toThrow(
        "jobs of two kinds have the name pi; name one of them: rhinojob/pi or mpijob/pi",
      );
      expect((await client.list(MPIJob, { namespace })).items).toHaveLength(1);
    },
  );

  it.each(["mpijob/pi", "MPIJob/pi", "mpijobs/pi", "mpijobs.kubeflow.org/pi"])("finds %s", async (argument) => {
    await createRhinoJob("pi");
    await createMpiJob("pi");
    await setStatus("pi", { jobStatus: "Completed", message: "done" });
    expect(await run("wait", [argument])).toEqual({ exitCode: 0, out: `${argument}: Completed: done\n`, err: "" });
    expect((await run("explain", ["rhinojobs.openrhino.org/pi"])).out).toContain("pi: Pending");
  });

  it("rejects other kinds", async () => {
    await expect(run("wait", ["job/pi"])).rejects.toThrow('"job" in job/pi is not a kind of job: must be rhinojob or mpijob');
  });

  it("needs no permission to read RhinoJobs for an MPIJob, and reports a missing permission if there is no job", async () => {
    await createMpiJob("v2");
    const isRhino = (request: { path: string }): boolean => request.path.startsWith("/apis/openrhino.org/");
    environment.faults.failNext({ reason: "Forbidden", when: isRhino, times: 2 });
    expect((await run("explain", ["v2"])).exitCode).toBe(0);
    await expect(run("explain", ["other"])).rejects.toMatchObject({ status: { reason: "Forbidden" } });
  });
});
