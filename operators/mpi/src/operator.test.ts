import { readFileSync } from "node:fs";
import type { DeepReadonly } from "@keelson/api-machinery";
import {
  type ClusterRoleObject,
  ConfigMap,
  type CustomResourceDefinitionObject,
  Job,
  type JobObject,
  NetworkPolicy,
  Pod,
  Secret,
  Service,
} from "@keelson/api-machinery/kinds";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import { clusterRulesOf } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { RhinoJob } from "./api/rhino-job.ts";
import { mpi } from "./operator.ts";
import { namesOf, namespace, OperatorEnvironment, readyPod } from "./testing/operator-environment.ts";

const podGroupCrds = parseAllDocuments(readFileSync(new URL("../testdata/podgroups.yaml", import.meta.url), "utf8")).map(
  (document) => document.toJS() as CustomResourceDefinitionObject,
);

let test: OperatorEnvironment;
let client: Client;

beforeEach(async () => {
  test = await OperatorEnvironment.start();
  client = test.client;
});

afterEach(() => test.stop());

/** Ends worker 0. Worker 1 never starts, so that it has to be stopped. */
async function endWorkers(): Promise<void> {
  await test.setPod("pi-w-0", { phase: "Succeeded" });
  await test.setPod("pi-w-1", { phase: "Pending" });
}

/** Takes a job so far that all its Pods run. */
async function running(job: DeepReadonly<RhinoJob>): Promise<ReturnType<typeof namesOf>> {
  const names = namesOf(job);
  await watched(client, Job, names.launcher, (each) => each !== undefined);
  await test.pod(names.launcher, "pi-l", readyPod);
  await watched(client, Job, names.workers, (each) => each !== undefined);
  for (const index of [0, 1]) await test.pod(names.workers, `pi-w-${index}`, { phase: "Running" });
  await test.reached((each) => each?.status?.jobStatus === "Running");
  return names;
}

/** Waits until a Job exists. */
async function watchedJob(name: string): Promise<DeepReadonly<JobObject>> {
  await watched(client, Job, name, (each) => each !== undefined);
  return client.get(Job, { namespace, name });
}

describe("the mpi operator", () => {
  it("creates the launcher, the workers when it has an address, and is Completed when the launcher is", async () => {
    const job = await test.create();
    const names = namesOf(job);
    await watched(client, Job, names.launcher, (each) => each !== undefined);
    await expect(client.get(Job, { namespace, name: names.workers })).rejects.toThrow(/not found/);
    await running(job);
    const workers = await client.get(Job, { namespace, name: names.workers });
    expect(workers.spec).toMatchObject({ completionMode: "Indexed", completions: 2, backoffLimitPerIndex: 0 });
    expect(workers.metadata.ownerReferences).toMatchObject([{ kind: "RhinoJob", uid: job.metadata.uid, controller: true }]);
    const secret = await client.get(Secret, { namespace, name: names.secret });
    expect(Buffer.from(secret.data?.token ?? "", "base64").length).toBeGreaterThanOrEqual(32);
    const policy = await client.get(NetworkPolicy, { namespace, name: names.policy });
    const podSelector = { matchLabels: { rhinoID: job.metadata.uid } };
    expect(policy.spec).toEqual({ podSelector, policyTypes: ["Ingress"], ingress: [{ from: [{ podSelector }] }] });
    expect(policy.metadata.ownerReferences).toMatchObject([{ kind: "RhinoJob", uid: job.metadata.uid }]);
    // The Job controller records the end of the Pod later.
    await test.setPod("pi-l", { phase: "Succeeded" });
    const done = await test.reached((each) => each?.status?.jobStatus === "Completed");
    expect(done?.status).toMatchObject({ exitCode: 0, launcherPodNames: ["pi-l"], workerPodNames: ["pi-w-0", "pi-w-1"] });
    // What is left of the workers is stopped.
    await endWorkers();
    await watched(client, Job, names.workers, (each) => each?.spec.suspend === true);
  });

  it("publishes the hosts of a job, and those that are running", async () => {
    const job = await test.create({ hostfile: true, slotsPerWorker: 2, parallelism: 3, mpiImplementation: "OpenMPI" });
    const names = namesOf(job);
    const name = `${names.launcher.replace(/launcher$/, "hosts")}`;
    const host = (index: number) => `${names.workers}-${index}.${name}.default.svc`;
    await watched(client, Job, names.launcher, (each) => each !== undefined);
    expect((await client.get(Service, { namespace, name })).spec).toMatchObject({
      clusterIP: "None",
      selector: { rhinoID: job.metadata.uid },
    });
    const config = await client.get(ConfigMap, { namespace, name });
    expect(config.data).toEqual({
      hostfile: `${host(0)} slots=2\n${host(1)} slots=1\n`,
      "discover_hosts.sh": "#!/bin/sh\n",
    });
    await running(job);
    const found = `#!/bin/sh\necho ${host(0)}:2\necho ${host(1)}:1\n`;
    await watched(client, ConfigMap, name, (each) => each?.data?.["discover_hosts.sh"] === found);
  });

  it("is Failed with the exit status of a failed program", async () => {
    const names = await running(await test.create());
    await test.setPod("pi-l", {
      phase: "Failed",
      containerStatuses: [
        {
          ...{ name: "rhino-mpi-launcher", ready: false, restartCount: 0, image: "x", imageID: "" },
          state: { terminated: { exitCode: 3, reason: "Error" } },
        },
      ],
    });
    await test.endJob(names.launcher, "Failed", "BackoffLimitExceeded");
    const failed = await test.reached((each) => each?.status?.jobStatus === "Failed");
    expect(failed?.status).toMatchObject({ exitCode: 3, message: "mpiexec exited with 3" });
  });

  it("resumes after a restart of the operator at every step", async () => {
    const restart = async (): Promise<void> => {
      await test.stopOperator();
      await test.startOperator();
    };
    const job = await test.create();
    const names = namesOf(job);
    await watched(client, Job, names.launcher, (each) => each !== undefined);
    await restart();
    await test.pod(names.launcher, "pi-l", readyPod);
    await watched(client, Job, names.workers, (each) => each !== undefined);
    await restart();
    for (const index of [0, 1]) await test.pod(names.workers, `pi-w-${index}`, { phase: "Running" });
    await test.reached((each) => each?.status?.jobStatus === "Running");
    await test.stopOperator();
    await test.endJob(names.launcher, "Complete", "CompletionsReached");
    await test.startOperator();
    await test.reached((each) => each?.status?.jobStatus === "Completed");
    expect((await client.list(Job, { namespace })).items).toHaveLength(2);
  });

  it("fails if the launcher is deleted and does not recreate it", async () => {
    const names = await running(await test.create());
    await client.delete(Job, { namespace, name: names.launcher }, { propagationPolicy: "Background" });
    const failed = await test.reached((each) => each?.status?.jobStatus === "Failed");
    expect(failed?.status?.conditions?.find(({ type }) => type === "Failed")?.reason).toBe("LauncherDeleted");
    await expect(client.get(Job, { namespace, name: names.launcher })).rejects.toThrow(/not found/);
  });

  it("suspends a job and resumes it with a fresh attempt", async () => {
    const suspend = (value: boolean) =>
      client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body: { spec: { runPolicy: { suspend: value } } } });
    const job = await test.create({ runPolicy: { suspend: true } });
    await test.reached((each) => each?.status?.jobStatus === "Suspended");
    expect((await client.list(Job, { namespace })).items).toEqual([]);
    await suspend(false);
    const names = await running(job);
    await suspend(true);
    await watched(client, Job, names.launcher, (each) => each?.spec.suspend === true);
    await watched(client, Job, names.workers, (each) => each?.spec.suspend === true);
    await suspend(false);
    await test.reached(
      (each) => each?.status?.conditions?.some(({ type, status }) => type === "Suspended" && status === "True") ?? false,
    );
    const second = names.launcher.replace("-launcher", "-a2-launcher");
    expect((await client.list(Job, { namespace })).items.map(({ metadata }) => metadata.name)).not.toContain(second);
    for (const name of ["pi-l", "pi-w-0", "pi-w-1"]) await client.delete(Pod, { namespace, name }, { gracePeriodSeconds: 0 });
    await watched(client, Job, second, (each) => each !== undefined);
    const resumed = await test.reached((each) => each?.status?.attempt === 2);
    expect(resumed?.status).toMatchObject({ jobStatus: "Pending", workerPodNames: [] });
  });

  it("records an attempt whose start it could not record before the job was suspended again", async () => {
    const suspend = (value: boolean) =>
      client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body: { spec: { runPolicy: { suspend: value } } } });
    const job = await test.create();
    const { launcher } = namesOf(job);
    await watched(client, Job, launcher, (each) => each !== undefined);
    await test.reached((each) => each?.status?.attempt === 1);
    await suspend(true);
    await test.reached((each) => each?.status?.jobStatus === "Suspended");
    await test.stopOperator();
    // As a crash after the creation of the second launcher leaves it.
    const { spec, metadata } = await client.get(Job, { namespace, name: launcher });
    const { selector: _, ...rest } = spec;
    const isOfJob = (label: string): boolean => /(?:controller-uid|job-name)$/.test(label);
    const labels = Object.fromEntries(
      Object.entries(spec.template.metadata?.labels ?? {}).filter(([label]) => !isOfJob(label)),
    );
    const second = launcher.replace("-launcher", "-a2-launcher");
    await client.create(Job, {
      metadata: { name: second, namespace, ownerReferences: metadata.ownerReferences ?? [] },
      spec: { ...rest, suspend: false, template: { ...spec.template, metadata: { labels } } },
    } as never);
    await test.startOperator();
    await watched(client, Job, second, (each) => each?.spec.suspend === true);
    const suspended = await test.reached((each) => each?.status?.attempt === 2 && each.status.jobStatus === "Suspended");
    expect(suspended?.status?.conditions?.find(({ type }) => type === "Suspended")?.status).toBe("True");
  });

  it("ignores a Pod that refers to the launcher's Job but is not controlled by it", async () => {
    const { launcher } = namesOf(await test.create());
    const { metadata, spec } = await watchedJob(launcher);
    await client.create(Pod, {
      metadata: {
        name: "forged",
        namespace,
        labels: { ...spec.template.metadata?.labels },
        ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: launcher, uid: metadata.uid ?? "" }],
      },
      spec: { ...spec.template.spec },
    } as never);
    await test.setPod("forged", { phase: "Succeeded" });
    await test.pod(launcher, "pi-l", readyPod);
    const seen = await test.reached((each) => each?.status?.launcherPodNames?.includes("pi-l") ?? false);
    expect(seen?.status).toMatchObject({ jobStatus: "Pending", launcherPodNames: ["pi-l"] });
  });

  it("rejects a change of managedBy", async () => {
    await test.create({ runPolicy: { managedBy: "kueue.x-k8s.io/multikueue" } });
    const body = { spec: { runPolicy: { managedBy: "kubeflow.org/mpi-operator" } } };
    await expect(client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body })).rejects.toThrow(
      /managedBy.*immutable/,
    );
  });

  it("deletes a job when its ttl has passed", async () => {
    const names = await running(await test.create({ ttl: 1 }));
    await test.endJob(names.launcher, "Complete", "CompletionsReached");
    const done = await test.reached((each) => each?.status?.jobStatus === "Completed");
    await test.reached((each) => each === undefined);
    expect(Date.now() - Date.parse(done?.status?.completionTime ?? "")).toBeGreaterThanOrEqual(1000);
  });

  it("accepts a job with the name of one that is being deleted (issue 26 of the original)", async () => {
    const first = namesOf(await test.create());
    await watched(client, Job, first.launcher, (each) => each !== undefined);
    await client.delete(RhinoJob, { namespace, name: "pi" });
    const second = namesOf(await test.create());
    expect(second.launcher).not.toBe(first.launcher);
    await watched(client, Job, second.launcher, (each) => each !== undefined);
  });

  it.each([
    ["", {}],
    [" with gang scheduling", { "gang-scheduling": "volcano" }],
  ])("needs no permission that its rules do not grant%s", async (_, flags) => {
    await test.stop();
    test = await OperatorEnvironment.start({ crds: podGroupCrds, flags });
    client = test.client;
    await test.stopOperator();
    const role = { apiVersion: "rbac.authorization.k8s.io/v1", metadata: { name: "mpi" } };
    const resource = (kind: string, plural: string) =>
      ({ group: "rbac.authorization.k8s.io", version: "v1", kind, plural, scope: "Cluster" }) as const;
    await client.create(resource("ClusterRole", "clusterroles"), {
      ...role,
      kind: "ClusterRole",
      rules: clusterRulesOf(mpi),
    } as unknown as ClusterRoleObject);
    await client.create(resource("ClusterRoleBinding", "clusterrolebindings"), {
      ...role,
      kind: "ClusterRoleBinding",
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "mpi" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "mpi-operator" }],
    } as never);
    const user = { username: "mpi-operator", groups: ["system:authenticated"] };
    const limited = createClient({ transport: test.environment.transport(user), fieldManager: "mpi" });
    const refused: string[] = [];
    const log: Logger = {
      ...silentLogger,
      child: () => log,
      error: (fields, message) => refused.push(`${message} ${JSON.stringify(fields)}`),
      warn: (fields, message) => /forbidden|cannot/.test(message) && refused.push(`${message} ${JSON.stringify(fields)}`),
    };
    await test.startOperator(limited, log);
    const job = await test.create({ ttl: 1 });
    const names = await running(job);
    const minAvailable = { spec: { runPolicy: { schedulingPolicy: { minAvailable: 2 } } } };
    const edited = await client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body: minAvailable });
    await test.reached((each) => each?.status?.observedGeneration === edited.metadata.generation);
    // In this order, so that the ttl cannot pass before the workers are stopped.
    await endWorkers();
    await test.endJob(names.launcher, "Complete", "CompletionsReached");
    await watched(client, Job, names.workers, (each) => each?.spec.suspend === true);
    await test.reached((each) => each === undefined);
    expect(refused).toEqual([]);
  });
});
