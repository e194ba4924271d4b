import { mkdtempSync, rmSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import type { DeepReadonly } from "@keelson/api-machinery";
import { Job, Pod, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";
import type { Client } from "@keelson/client";
import { startTestCluster, type TestCluster } from "@keelson/cluster/testing";
import { type RunningOperator, startOperator } from "@keelson/operator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RhinoJob } from "./api/rhino-job.ts";
import { hasEnded, watchUntilEnd } from "./commands/watch-job.ts";
import { mpi } from "./operator.ts";
import { compilePi } from "./testing/pod-processes.ts";
import { watched } from "@keelson/client/testing";

/*
 * A RhinoJob on everything that `keelson up` starts: API server, Job controller, node, operator, and both MPIs for real.
 */

const namespace = "default";
const source = fileURLToPath(new URL("../../../examples/mpi/pi.c", import.meta.url));
const signal = AbortSignal.timeout(120_000);
let folder: string;
let client: Client;
let cluster: TestCluster;
let operator: RunningOperator;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "mpi-cluster-"));
  compilePi("mpicc.openmpi", source, join(folder, "pi-openmpi"));
  compilePi("mpicc.mpich", source, join(folder, "pi-mpich"));
  cluster = await startTestCluster({
    serve: (options) => serveApi({ ...options, clock: systemClock, random: systemRandom, port: 0 }),
    dataDir: folder,
    crds: mpi.resources.map((resource) => resource.crd),
  });
  ({ client } = cluster);
  operator = await startOperator({ operator: mpi, client, dataDir: folder, flags: {} });
});

afterAll(async () => {
  for (const { metadata } of (await client.list(RhinoJob, { namespace })).items)
    await client.delete(RhinoJob, { namespace, name: metadata.name ?? "" });
  await operator.stop();
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function make(name: string, spec: Partial<RhinoJob["spec"]>): Promise<void> {
  const full = { image: "local", workingDir: folder, ...spec } as RhinoJob["spec"];
  await client.create(RhinoJob, { metadata: { name, namespace }, spec: full });
}

const end = (name: string): Promise<DeepReadonly<RhinoJob> | undefined> =>
  watchUntilEnd(client, { namespace, name, signal, onChange: () => {} });

const log = async (job: DeepReadonly<RhinoJob> | undefined): Promise<string> =>
  text(await client.podLog({ namespace, name: job?.status?.launcherPodNames?.[0] ?? "" }, { signal }));

describe.each(["openmpi", "mpich"])("a RhinoJob of %s", (implementation) => {
  it.each([1, 2, 4])("runs to Completed in %i ranks, and its log is what the ranks wrote", async (parallelism) => {
    const name = `${implementation}-${parallelism}`;
    await make(name, { parallelism, appExec: `./pi-${implementation}`, appArgs: ["1000"] });
    const job = await end(name);
    expect(job?.status).toMatchObject({ jobStatus: "Completed", exitCode: 0 });
    expect(job?.status?.workerPodNames).toHaveLength(parallelism);
    expect(await log(job)).toContain(`pi is 3.14159274, by ${parallelism} ranks and 1000 strips\n`);
  });

  it("is Failed with the program's exit status", async () => {
    await make(`${implementation}-bad`, { parallelism: 2, appExec: `./pi-${implementation}`, appArgs: ["1000", "5"] });
    expect((await end(`${implementation}-bad`))?.status).toMatchObject({ jobStatus: "Failed", exitCode: 5 });
  });
});

describe("a running RhinoJob", () => {
  const script = "require('fs').writeFileSync('up-' + process.pid, ''); setTimeout(() => {}, 600000)";
  const sleeper = { parallelism: 2, appExec: process.execPath, appArgs: ["-e", script] };
  const running = (name: string) => watched(client, RhinoJob, name, (job) => job?.status?.jobStatus === "Running");

  it("fails if a worker is deleted and names it", async () => {
    const up = new Set<string>();
    const watcher = watch(folder);
    const areUp = new Promise<void>((resolve) =>
      watcher.on("change", (_, name) => String(name).startsWith("up-") && up.add(String(name)).size === 2 && resolve()),
    );
    await make("lose", { ...sleeper, mpiImplementation: "OpenMPI" });
    await areUp;
    watcher.close();
    const { items } = await client.list(Pod, { namespace, labelSelector: "app=lose,type=worker" });
    await client.delete(Pod, { namespace, name: items[1]?.metadata.name ?? "" });
    const job = await end("lose");
    expect(job?.status?.jobStatus).toBe("Failed");
    // On a busy machine the Pod is deleted before the launcher reports the end of its worker.
    expect(job?.status?.message).toMatch(/worker [01] (?:exited with 143: received SIGTERM|was deleted)/);
  });

  it("leaves nothing behind when it is deleted", async () => {
    await make("gone", { ...sleeper, mpiImplementation: "MPICH" });
    const job = await running("gone");
    expect(job !== undefined && hasEnded(job)).toBe(false);
    await client.delete(RhinoJob, { namespace, name: "gone" }, { propagationPolicy: "Foreground" });
    await watched(client, RhinoJob, "gone", (each) => each === undefined);
    const owned = [...(await client.list(Job, { namespace })).items, ...(await client.list(Secret, { namespace })).items];
    expect(owned.filter(({ metadata }) => metadata.ownerReferences?.some(({ name }) => name === "gone"))).toEqual([]);
  });
});
