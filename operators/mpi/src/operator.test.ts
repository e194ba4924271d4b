import type { DeepReadonly } from "@keelson/api-machinery";
import {
  type ClusterRoleObject,
  ConfigMap,
  Job,
  NetworkPolicy,
  Pod,
  type PodObject,
  Secret,
  Service,
} from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { type Logger, silentLogger } from "@keelson/controller";
import { clusterRulesOf, type RunningOperator, startOperator } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RhinoJob } from "./api/rhino-job.ts";
import { mpi } from "./operator.ts";
import { watched } from "@keelson/client/testing";

const namespace = "default";
let environment: TestEnvironment;
let client: Client;
let operator: RunningOperator;

beforeEach(async () => {
  environment = await startTestEnvironment({ crds: mpi.resources.map((resource) => resource.crd) });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  operator = await startOperator({ operator: mpi, client, dataDir: "/nonexistent", flags: {} });
});

afterEach(async () => {
  await operator.stop();
  await environment.stop();
});

async function make(spec: Partial<RhinoJob["spec"]> = {}, name = "pi"): Promise<DeepReadonly<RhinoJob>> {
  const full = { image: "x", appExec: "./pi", parallelism: 2, ...spec } as RhinoJob["spec"];
  return client.create(RhinoJob, { metadata: { name, namespace }, spec: full });
}

const reached = (isReached: (job: DeepReadonly<RhinoJob> | undefined) => boolean, name = "pi") =>
  watched(client, RhinoJob, name, isReached);

/** The names that a RhinoJob's Jobs have. */
const jobsOf = (job: DeepReadonly<RhinoJob>) => {
  const prefix = `${job.metadata.name}-${job.metadata.uid?.slice(0, 5)}`;
  return { launcher: `${prefix}-launcher`, workers: `${prefix}-workers`, secret: `${prefix}-token`, policy: `${prefix}-peers` };
};

/** Does what the Job controller and the kubelet do: a Pod of a Job, in this state. */
async function pod(owner: string, name: string, status: NonNullable<PodObject["status"]>): Promise<void> {
  const job = await client.get(Job, { namespace, name: owner });
  const index = /-w-(\d+)$/.exec(name)?.[1];
  await client.create(Pod, {
    metadata: {
      name,
      namespace,
      ...(index === undefined ? {} : { annotations: { "batch.kubernetes.io/job-completion-index": index } }),
      labels: { ...job.spec.template.metadata?.labels },
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: owner, uid: job.metadata.uid ?? "", controller: true }],
    },
    spec: job.spec.template.spec,
  });
  await setPod(name, status);
}

async function setPod(name: string, status: NonNullable<PodObject["status"]>): Promise<void> {
  await client.patch(Pod, { namespace, name }, { type: "merge", body: { status } }, { subresource: "status" });
}

async function endJob(name: string, type: "Complete" | "Failed", reason: string): Promise<void> {
  const now = new Date().toISOString().replace(/\.\d+Z/, "Z");
  const condition = (each: string) => ({
    type: each,
    status: "True",
    reason,
    message: "",
    lastTransitionTime: now,
    lastProbeTime: now,
  });
  const before = type === "Complete" ? "SuccessCriteriaMet" : "FailureTarget";
  const status =
    type === "Complete"
      ? { succeeded: 1, startTime: now, completionTime: now, conditions: [condition(before), condition(type)] }
      : { failed: 1, startTime: now, conditions: [condition(before), condition(type)] };
  await client.patch(Job, { namespace, name }, { type: "merge", body: { status } }, { subresource: "status" });
}

const ready = { phase: "Running" as const, podIP: "127.5.0.1", conditions: [{ type: "Ready", status: "True" as const }] };

/** Ends the workers' Pods. Their Job stays active, because no Job controller runs. */
async function endWorkers(): Promise<void> {
  for (const index of [0, 1]) await setPod(`pi-w-${index}`, { phase: "Succeeded" });
}

/** Takes a job so far that all its Pods run. */
async function running(job: DeepReadonly<RhinoJob>): Promise<ReturnType<typeof jobsOf>> {
  const names = jobsOf(job);
  await watched(client, Job, names.launcher, (each) => each !== undefined);
  await pod(names.launcher, "pi-l", ready);
  await watched(client, Job, names.workers, (each) => each !== undefined);
  for (const index of [0, 1]) await pod(names.workers, `pi-w-${index}`, { phase: "Running" });
  await reached((each) => each?.status?.jobStatus === "Running");
  return names;
}

describe("the mpi operator", () => {
  it("creates the launcher, then the workers, and is Completed when the launcher is", async () => {
    const job = await make();
    const names = jobsOf(job);
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
    await endJob(names.launcher, "Complete", "CompletionsReached");
    const done = await reached((each) => each?.status?.jobStatus === "Completed");
    expect(done?.status).toMatchObject({ exitCode: 0, launcherPodNames: ["pi-l"], workerPodNames: ["pi-w-0", "pi-w-1"] });
    // What is left of the workers is stopped.
    await endWorkers();
    await watched(client, Job, names.workers, (each) => each?.spec.suspend === true);
  });

  it("publishes the hosts of a job, and those that are running", async () => {
    const job = await make({ hostfile: true, slotsPerWorker: 2, parallelism: 3, mpiImplementation: "OpenMPI" });
    const names = jobsOf(job);
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
    const names = await running(await make());
    await setPod("pi-l", {
      phase: "Failed",
      containerStatuses: [
        {
          ...{ name: "rhino-mpi-launcher", ready: false, restartCount: 0, image: "x", imageID: "" },
          state: { terminated: { exitCode: 3, reason: "Error" } },
        },
      ],
    });
    await endJob(names.launcher, "Failed", "BackoffLimitExceeded");
    const failed = await reached((each) => each?.status?.jobStatus === "Failed");
    expect(failed?.status).toMatchObject({ exitCode: 3, message: "mpiexec exited with 3" });
  });

  it("resumes after a restart of the operator at every step", async () => {
    const restart = async (): Promise<void> => {
      await operator.stop();
      operator = await startOperator({ operator: mpi, client, dataDir: "/nonexistent", flags: {} });
    };
    const job = await make();
    const names = jobsOf(job);
    await watched(client, Job, names.launcher, (each) => each !== undefined);
    await restart();
    await pod(names.launcher, "pi-l", ready);
    await watched(client, Job, names.workers, (each) => each !== undefined);
    await restart();
    for (const index of [0, 1]) await pod(names.workers, `pi-w-${index}`, { phase: "Running" });
    await reached((each) => each?.status?.jobStatus === "Running");
    await operator.stop();
    await endJob(names.launcher, "Complete", "CompletionsReached");
    operator = await startOperator({ operator: mpi, client, dataDir: "/nonexistent", flags: {} });
    await reached((each) => each?.status?.jobStatus === "Completed");
    expect((await client.list(Job, { namespace })).items).toHaveLength(2);
  });

  it("fails if the launcher is deleted and does not recreate it", async () => {
    const names = await running(await make());
    await client.delete(Job, { namespace, name: names.launcher }, { propagationPolicy: "Background" });
    const failed = await reached((each) => each?.status?.jobStatus === "Failed");
    expect(failed?.status?.conditions?.find(({ type }) => type === "Failed")?.reason).toBe("LauncherDeleted");
    await expect(client.get(Job, { namespace, name: names.launcher })).rejects.toThrow(/not found/);
  });

  it("suspends a job and resumes it with a fresh attempt", async () => {
    const suspend = (value: boolean) =>
      client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body: { spec: { runPolicy: { suspend: value } } } });
    const job = await make({ runPolicy: { suspend: true } });
    await reached((each) => each?.status?.jobStatus === "Suspended");
    expect((await client.list(Job, { namespace })).items).toEqual([]);
    await suspend(false);
    const names = await running(job);
    await suspend(true);
    await watched(client, Job, names.launcher, (each) => each?.spec.suspend === true);
    await watched(client, Job, names.workers, (each) => each?.spec.suspend === true);
    await suspend(false);
    await reached(
      (each) => each?.status?.conditions?.some(({ type, status }) => type === "Suspended" && status === "True") ?? false,
    );
    const second = names.launcher.replace("-launcher", "-a2-launcher");
    expect((await client.list(Job, { namespace })).items.map(({ metadata }) => metadata.name)).not.toContain(second);
    for (const name of ["pi-l", "pi-w-0", "pi-w-1"]) await client.delete(Pod, { namespace, name }, { gracePeriodSeconds: 0 });
    await watched(client, Job, second, (each) => each !== undefined);
    const resumed = await reached((each) => each?.status?.attempt === 2);
    expect(resumed?.status).toMatchObject({ jobStatus: "Pending", workerPodNames: [] });
  });

  it("rejects a change of managedBy", async () => {
    await make({ runPolicy: { managedBy: "kueue.x-k8s.io/multikueue" } });
    const body = { spec: { runPolicy: { managedBy: "kubeflow.org/mpi-operator" } } };
    await expect(client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body })).rejects.toThrow(
      /managedBy.*immutable/,
    );
  });

  it("deletes a job when its ttl has passed", async () => {
    const names = await running(await make({ ttl: 1 }));
    await endJob(names.launcher, "Complete", "CompletionsReached");
    const done = await reached((each) => each?.status?.jobStatus === "Completed");
    await reached((each) => each === undefined);
    expect(Date.now() - Date.parse(done?.status?.completionTime ?? "")).toBeGreaterThanOrEqual(1000);
  });

  it("accepts a job with the name of one that is being deleted (issue 26 of the original)", async () => {
    const first = jobsOf(await make());
    await watched(client, Job, first.launcher, (each) => each !== undefined);
    await client.delete(RhinoJob, { namespace, name: "pi" });
    const second = jobsOf(await make());
    expect(second.launcher).not.toBe(first.launcher);
    await watched(client, Job, second.launcher, (each) => each !== undefined);
  });

  it("needs no permission that its rules do not grant", async () => {
    await operator.stop();
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
    const limited = createClient({ transport: environment.transport(user), fieldManager: "mpi" });
    const refused: string[] = [];
    const log: Logger = {
      ...silentLogger,
      child: () => log,
      error: (fields, message) => refused.push(`${message} ${JSON.stringify(fields)}`),
      warn: (fields, message) => /forbidden|cannot/.test(message) && refused.push(`${message} ${JSON.stringify(fields)}`),
    };
    operator = await startOperator({ operator: mpi, client: limited, dataDir: "/nonexistent", flags: {}, logger: log });
    const names = await running(await make({ ttl: 1 }));
    await endJob(names.launcher, "Complete", "CompletionsReached");
    await endWorkers();
    await watched(client, Job, names.workers, (each) => each?.spec.suspend === true);
    await reached((each) => each === undefined);
    expect(refused).toEqual([]);
  });
});
