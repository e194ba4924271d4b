import { readFileSync } from "node:fs";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { RhinoJob } from "./api/rhino-job.ts";

const earlier = { ...RhinoJob, version: "v1alpha1", apiVersion: "openrhino.org/v1alpha1" } as typeof RhinoJob;
const grape = `
metadata: {name: rhinojob-grape}
spec:
  image: "zhuhe0321/libgrape"
  ttl: 300
  parallelism: 2
  appExec: "./libgrape"
  appArgs: ["--vfile", "/data/p2p-31.v", "--application", "sssp", "--directed"]
  dataServer: "10.0.0.7"
  dataPath: "/kfnmck56"
`;
const total = `
metadata: {name: rhinojob-sample-v1alpha2-fixed-total-mem}
spec:
  image: "openrhino/integration"
  ttl: 300
  parallelism: 2
  appExec: "/app/mpi-func"
  appArgs: ["1", "10", "1"]
  memoryAllocationMode: "FixedTotalMemory"
  memoryAllocationSize: 5
`;
const example = readFileSync(new URL("../../../examples/mpi/pi.yaml", import.meta.url), "utf8");

it.each([
  ["v1alpha1 of the original", earlier, grape],
  ["v1alpha2 of the original", RhinoJob, total],
  ["our own example", RhinoJob, example],
])("takes the manifest of %s as it is, with no field unknown", async (_, type, text) => {
  await using environment = await startTestEnvironment({ crds: [RhinoJob.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const manifest = parse(text) as RhinoJob;
  const metadata = { namespace: "default", ...manifest.metadata };
  const job = await client.create(type, { ...manifest, metadata }, { fieldValidation: "Strict" });
  expect(job.spec).toMatchObject(manifest.spec);
  const stored = await client.get(RhinoJob, { namespace: "default", name: manifest.metadata.name ?? "" });
  expect(stored).toMatchObject({ apiVersion: "openrhino.org/v1alpha2", spec: manifest.spec });
});

it("rejects a change of a running job's spec by field, except for its ttl", async () => {
  await using environment = await startTestEnvironment({ crds: [RhinoJob.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const key = { namespace: "default", name: "pi" };
  await client.create(RhinoJob, {
    metadata: key,
    spec: { image: "x", appExec: "./pi", parallelism: 2, appArgs: ["1"] } as RhinoJob["spec"],
  });
  const change = (spec: object) => client.patch(RhinoJob, key, { type: "merge", body: { spec } });
  for (const [field, value] of Object.entries({ parallelism: 4, appExec: "./other", appArgs: null, workingDir: "/x" })) {
    await expect(change({ [field]: value })).rejects.toThrow(new RegExp(`spec\\.${field}: .*field is immutable`));
  }
  await change({ ttl: 0 });
});

it("fills in the original's defaults", async () => {
  await using environment = await startTestEnvironment({ crds: [RhinoJob.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const spec = { image: "x", appExec: "./pi" } as RhinoJob["spec"];
  const job = await client.create(RhinoJob, { metadata: { name: "pi", namespace: "default" }, spec });
  expect(job.spec).toEqual({
    ...spec,
    parallelism: 1,
    ttl: 600,
    memoryAllocationMode: "FixedPerCoreMemory",
    memoryAllocationSize: 2,
    mpiImplementation: "Auto",
  });
});

it.each([
  ["no image", { image: undefined }, /spec\.image/],
  ["no program", { appExec: undefined }, /spec\.appExec/],
  ["no ranks", { parallelism: 0 }, /spec\.parallelism/],
  ["a time to live below 0", { ttl: -1 }, /spec\.ttl/],
  ["an unknown mode", { memoryAllocationMode: "Some" }, /spec\.memoryAllocationMode/],
  ["no memory", { memoryAllocationSize: 0 }, /spec\.memoryAllocationSize/],
  ["an unknown MPI", { mpiImplementation: "LAM" }, /spec\.mpiImplementation/],
])("refuses %s, and names the field", async (_, change, message) => {
  await using environment = await startTestEnvironment({ crds: [RhinoJob.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const spec = { image: "x", appExec: "./pi", ...change } as unknown as RhinoJob["spec"];
  await expect(client.create(RhinoJob, { metadata: { name: "pi", namespace: "default" }, spec })).rejects.toThrow(message);
});
