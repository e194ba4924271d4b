import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startKeelson } from "../testing/keelson-process.ts";
import { startTestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const manifests = fileURLToPath(new URL("../../../../deploy/keelson.yaml", import.meta.url));

test("installs, reports what an operator waits for, matches the manifests, and leaves nothing behind", {
  timeout: 300_000,
}, async () => {
  using folder = temporaryFolder();
  await using up = await startTestKeelson(folder.path, "--only", "cluster");
  const keelson = async (...args: string[]): Promise<{ readonly status: unknown; readonly output: string }> => {
    const process = startKeelson([...args, "--kubeconfig", up.kubeconfig]);
    return { status: await process.exited, output: process.output() };
  };
  expect(await keelson("upgrade")).toEqual({
    status: 1,
    output: "keelson: Keelson is not installed in namespace keelson-system: run keelson install --namespace keelson-system\n",
  });

  const dryRun = await keelson("install", "--dry-run");
  expect(dryRun.output).toMatch(/^created {5}Namespace keelson-system \(dry run\)$/m);
  expect(await up.kubectl("get", "crd", "-o", "name")).toBe("");

  // Nothing provides the image, so the rollout cannot succeed.
  const installed = await keelson("install", "--only", "mpi", "--timeout", "10s", "--set", "mpi.replicas=1");
  expect(installed.output).toMatch(/^created {5}Deployment keelson-mpi$/m);
  expect(installed.output).not.toContain("keelson-robots");
  expect(installed.output).toMatch(
    /the operators did not become ready in time:\n {2}keelson-mpi-\S+: .+\ninspect them: kubectl/,
  );
  expect(installed.status).toBe(1);

  await up.kubectl("apply", "--server-side", "--force-conflicts", "-f", manifests);
  expect(await keelson("install", "--timeout", "0s")).toMatchObject({ status: 0 });
  expect(await keelson("upgrade", "--dry-run")).toEqual({ status: 0, output: "" });

  const job = join(folder.path, "job.yaml");
  writeFileSync(
    job,
    `apiVersion: openrhino.org/v1alpha2
kind: RhinoJob
metadata: { name: pi }
spec: { image: x, parallelism: 1, ttl: 60, appExec: /bin/true, memoryAllocationMode: FixedPerCoreMemory, memoryAllocationSize: 1, mpiImplementation: Auto }
`,
  );
  await up.kubectl("apply", "-f", job);
  const asked = await keelson("uninstall");
  expect(asked.output).toContain("The following user objects will be deleted:\n  RhinoJob: default/pi\n");
  expect(asked.output).toContain("keelson: uninstall needs confirmation: pass --yes if stdin is not a terminal\n");
  expect(asked.status).toBe(2);
  const removed = await keelson("uninstall", "--yes");
  expect(removed.output).toMatch(/^uninstalled$/m);
  expect(removed.status).toBe(0);
  for (const kind of [
    "crd",
    "clusterrole,clusterrolebinding -l app.kubernetes.io/part-of=keelson",
    "ns keelson-system --ignore-not-found",
  ])
    expect(await up.kubectl("get", ...kind.split(" "), "-o", "name")).toBe("");
  expect(await keelson("uninstall", "--yes")).toEqual({
    status: 0,
    output: "Keelson is not installed in namespace keelson-system\n",
  });
});
