import { readFileSync } from "node:fs";
import { type CustomResourceDefinitionObject, Event, Job, Service } from "@keelson/api-machinery/kinds";
import { watched } from "@keelson/client/testing";
import { afterEach, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { MPIJob } from "../api/mpi-job.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import type { PodClasses } from "../children/admitted-pod.ts";
import { childNames } from "../children/child-names.ts";
import { launcherJob, workersJob } from "../children/job-templates.ts";
import { viewOfMpiJob } from "../controllers/mpi-job-view.ts";
import { rhinoJobOf } from "../testing/objects.ts";
import { namesOf, namespace, OperatorEnvironment } from "../testing/operator-environment.ts";
import { gangSchedulingOf, inPodGroup } from "./gang-scheduling.ts";
import { applyPodGroup, podGroupSpec, podGroupType } from "./pod-group.ts";

const crds = parseAllDocuments(readFileSync(new URL("../../testdata/podgroups.yaml", import.meta.url), "utf8")).map(
  (document) => document.toJS() as CustomResourceDefinitionObject,
);
const volcano = { kind: "volcano", schedulerName: "volcano" } as const;
const plugins = { kind: "scheduler-plugins", schedulerName: "my-scheduler" } as const;
const requests = (cpu: string, memory?: string) => ({
  spec: { containers: [{ resources: { requests: { cpu, ...(memory === undefined ? {} : { memory }) } } }] },
});

const classes: PodClasses = {
  priorityClasses: [
    { apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: { name: "low" }, value: 1 },
    { apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: { name: "high" }, value: 2 },
  ],
  runtimeClasses: [
    {
      ...{ apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", metadata: { name: "kata" }, handler: "kata" },
      overhead: { podFixed: { cpu: "250m", memory: "120Mi" } },
    },
  ],
};

function specOf(spec: Partial<RhinoJob["spec"]>, gang: typeof volcano | typeof plugins, annotations?: Record<string, string>) {
  const job = rhinoJobOf(spec);
  const annotated = { ...job, metadata: { ...job.metadata, ...(annotations === undefined ? {} : { annotations }) } };
  const names = childNames("pi", "0a1b2c3d", 1);
  const tools = { kind: "local", command: ["mpi"] } as const;
  const jobs = { launcher: launcherJob(annotated, names, tools), workers: workersJob(annotated, names, "l", tools) };
  return podGroupSpec(annotated, { ...jobs, ...classes }, gang);
}

describe("the PodGroup of a job", () => {
  it("has all Pods of the job and what they request", () => {
    const templates = { launcherTemplate: requests("500m"), workerTemplate: requests("1", "1Gi") };
    expect(specOf({ parallelism: 3, ...templates }, volcano)).toEqual({
      minMember: 4,
      minResources: { cpu: "3500m", memory: "3Gi" },
    });
    expect(specOf({ parallelism: 3 }, plugins)).toEqual({ minMember: 4, scheduleTimeoutSeconds: 0 });
  });

  it("counts Pods, not ranks", () => {
    expect(specOf({ parallelism: 6, slotsPerWorker: 2 }, volcano).minMember).toBe(4);
    expect(specOf({ parallelism: 6, slotsPerWorker: 2, runLauncherAsWorker: true }, volcano).minMember).toBe(3);
  });

  it("follows minAvailable and minResources of the scheduling policy", () => {
    const templates = { launcherTemplate: requests("500m"), workerTemplate: requests("1") };
    const some = { parallelism: 3, ...templates, runPolicy: { schedulingPolicy: { minAvailable: 2 } } };
    expect(specOf(some, volcano)).toEqual({ minMember: 2, minResources: { cpu: "1500m" } });
    const fixed = { schedulingPolicy: { minResources: { cpu: 8, memory: "1Gi" } } };
    expect(specOf({ ...templates, runPolicy: fixed }, plugins).minResources).toEqual({ cpu: 8, memory: "1Gi" });
  });

  it("counts the Pods with the higher priority if not all must start", () => {
    const pod = (cpu: string, priorityClassName?: string) => ({
      spec: { ...requests(cpu).spec, ...(priorityClassName === undefined ? {} : { priorityClassName }) },
    });
    const cpuOf = (minAvailable: number, launcher: string | undefined, worker: string | undefined) => {
      const templates = { launcherTemplate: pod("500m", launcher), workerTemplate: pod("1", worker) };
      return specOf({ parallelism: 3, ...templates, runPolicy: { schedulingPolicy: { minAvailable } } }, plugins).minResources;
    };
    expect(cpuOf(2, "low", "high")).toEqual({ cpu: "2" });
    expect(cpuOf(4, "low", "high")).toEqual({ cpu: "3500m" });
    expect(cpuOf(2, "high", "low")).toEqual({ cpu: "1500m" });
    expect(cpuOf(2, "unknown", "low")).toEqual({ cpu: "2" });
    expect(cpuOf(2, "high", "high")).toEqual({ cpu: "1500m" });
    expect(cpuOf(0, "high", "high")).toBeUndefined();
  });

  it("has the overhead of the RuntimeClass of each Pod", () => {
    const spec = { ...requests("1").spec, runtimeClassName: "kata" };
    expect(specOf({ parallelism: 3, workerTemplate: { spec } }, volcano).minResources).toEqual({
      cpu: "3750m",
      memory: "360Mi",
    });
    const unknown = { ...spec, runtimeClassName: "unknown" };
    expect(specOf({ parallelism: 3, workerTemplate: { spec: unknown } }, volcano).minResources).toEqual({ cpu: "3" });
  });

  it("has Volcano's queue and priority class, which scheduler-plugins does not know", () => {
    const policy = { queue: "q", priorityClass: "high", scheduleTimeoutSeconds: 30 };
    const spec = { runPolicy: { schedulingPolicy: policy } };
    expect(specOf(spec, volcano)).toMatchObject({ queue: "q", priorityClassName: "high" });
    expect(specOf(spec, volcano)).not.toHaveProperty("scheduleTimeoutSeconds");
    expect(specOf(spec, plugins)).toMatchObject({ scheduleTimeoutSeconds: 30 });
    for (const field of ["queue", "priorityClassName"]) expect(specOf(spec, plugins)).not.toHaveProperty(field);
    const annotations = { "scheduling.volcano.sh/queue-name": "annotated" };
    expect(specOf({}, volcano, annotations).queue).toBe("annotated");
    expect(specOf(spec, volcano, annotations).queue).toBe("q");
  });

  it("takes the priority class of the launcher, then of the workers", () => {
    const templates = {
      launcherTemplate: { spec: { priorityClassName: "l" } },
      workerTemplate: { spec: { priorityClassName: "w" } },
    };
    expect(specOf(templates, volcano).priorityClassName).toBe("l");
    expect(specOf({ workerTemplate: templates.workerTemplate }, volcano).priorityClassName).toBe("w");
  });
});

it("puts Pods into the group of their scheduler, which replaces another one", () => {
  const template = { metadata: { labels: { a: "b" } }, spec: { containers: [], schedulerName: "other", hostNetwork: true } };
  expect(inPodGroup(template, "pi", volcano)).toMatchObject({
    metadata: { labels: { a: "b" }, annotations: { "scheduling.k8s.io/group-name": "pi" } },
    spec: { schedulerName: "volcano", dnsPolicy: "ClusterFirstWithHostNet" },
  });
  expect(inPodGroup(template, "pi", plugins)).toMatchObject({
    metadata: { labels: { a: "b", "scheduling.x-k8s.io/pod-group": "pi" } },
    spec: { schedulerName: "my-scheduler" },
  });
  const dnsPolicyOf = (dnsPolicy: "ClusterFirst" | "Default") =>
    inPodGroup({ spec: { ...template.spec, dnsPolicy } }, "pi", volcano).spec.dnsPolicy;
  expect([dnsPolicyOf("ClusterFirst"), dnsPolicyOf("Default")]).toEqual(["ClusterFirstWithHostNet", "Default"]);
  expect(gangSchedulingOf("volcano")).toEqual(volcano);
  expect(gangSchedulingOf("my-scheduler")).toEqual(plugins);
  expect(gangSchedulingOf(undefined)).toBeUndefined();
});

describe.each([volcano, plugins])("the operator with gang scheduling by $kind", (gang) => {
  let test: OperatorEnvironment;
  const type = podGroupType(gang);
  const groupOf = (job: Parameters<typeof namesOf>[0]): string => namesOf(job).launcher.replace(/-launcher$/, "");
  const start = async (kinds: readonly CustomResourceDefinitionObject[] = crds): Promise<void> => {
    test = await OperatorEnvironment.start({ crds: kinds, flags: { "gang-scheduling": gang.schedulerName } });
  };

  afterEach(() => test.stop());

  it("creates the PodGroup, then launcher and workers together, and waits for no queue", async () => {
    await start();
    const job = await test.create({ runPolicy: { schedulingPolicy: { minAvailable: 3 } } });
    const names = namesOf(job);
    await test.reached((each) => each?.status?.conditions?.some(({ type }) => type === "WorkersCreated") ?? false);
    const group = await test.client.get(type, { namespace, name: groupOf(job) });
    expect(group.spec.minMember).toBe(3);
    expect(group.metadata.ownerReferences).toMatchObject([{ kind: "RhinoJob", uid: job.metadata.uid, controller: true }]);
    const jobs = await Promise.all([names.launcher, names.workers].map((name) => test.client.get(Job, { namespace, name })));
    for (const { spec } of jobs) {
      const { metadata, spec: pod } = spec.template;
      const member = { ...metadata?.labels, ...metadata?.annotations };
      expect(Object.values(member)).toContain(group.metadata.name);
      expect(pod.schedulerName).toBe(gang.schedulerName);
    }
    const host = `${names.launcher}.${groupOf(job)}-hosts.${namespace}.svc`;
    expect(jobs[1]?.spec.template.spec.containers[0]?.env).toContainEqual({
      name: "KEELSON_MPI_LAUNCHER",
      value: `${host}:21000`,
    });
    expect(jobs[0]?.spec.template.spec).toMatchObject({ hostname: names.launcher, subdomain: `${groupOf(job)}-hosts` });
    expect((await test.client.get(Service, { namespace, name: `${groupOf(job)}-hosts` })).spec?.clusterIP).toBe("None");
  });

  it("updates the PodGroup with the scheduling policy, and deletes it when the job is suspended or has ended", async () => {
    await start();
    const job = await test.create();
    const name = groupOf(job);
    await watched(test.client, type, name, (group) => group?.spec.minMember === 3);
    await test.reached((each) => each?.status?.attempt === 1);
    const patch = (body: object) =>
      test.client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body: body as never });
    await patch({ spec: { runPolicy: { schedulingPolicy: { minAvailable: 2 } } } });
    await watched(test.client, type, name, (group) => group?.spec.minMember === 2);
    await patch({ spec: { runPolicy: { suspend: true } } });
    await test.reached((each) => each?.status?.jobStatus === "Suspended");
    await watched(test.client, type, name, (group) => group === undefined);
    await patch({ spec: { runPolicy: { suspend: false } } });
    await watched(test.client, type, `${name}-a2`, (group) => group?.spec.minMember === 2);
    const second = namesOf(job).launcher.replace("-launcher", "-a2-launcher");
    await watched(test.client, Job, second, (each) => each !== undefined);
    await test.endJob(second, "Complete", "CompletionsReached");
    await watched(test.client, type, `${name}-a2`, (group) => group === undefined);
  });

  it("creates the PodGroup of an MPIJob", async () => {
    await start();
    const template = { spec: { containers: [{ name: "c", image: "x", command: ["mpirun"] }] } };
    const job = await test.client.create(MPIJob, {
      metadata: { name: "pi", namespace },
      spec: { mpiReplicaSpecs: { Launcher: { template }, Worker: { replicas: 2, template } } },
    } as never);
    await watched(test.client, type, groupOf(viewOfMpiJob(job)), (group) => group?.spec.minMember === 3);
  });

  const noted = async (reason: string): Promise<void> => {
    const count = async () => (await test.client.list(Event, { namespace, fieldSelector: `reason=${reason}` })).items.length;
    await expect.poll(count, { timeout: 30_000 }).toBeGreaterThan(0);
  };
  const foreignGroup = (name: string) =>
    test.client.create(type, { metadata: { name, namespace }, spec: { minMember: 7 } } as never);
  const suspend = (value: boolean, spec: object = {}) =>
    test.client.patch(
      RhinoJob,
      { namespace, name: "pi" },
      { type: "merge", body: { spec: { runPolicy: { suspend: value }, ...spec } } as never },
    );

  it("says in the status that the cluster has no PodGroups, and starts nothing", async () => {
    await start([]);
    await test.create();
    const waiting = await test.reached((each) => each?.status?.message !== undefined);
    const message = `podgroups.${type.group}/${type.version} not found; install ${gang.kind} or change --gang-scheduling`;
    expect(waiting?.status).toMatchObject({ jobStatus: "Pending", message });
    expect(waiting?.status?.startTime).toBeUndefined();
    expect(waiting?.status?.conditions).toContainEqual(
      expect.objectContaining({ type: "Created", status: "True", reason: "PodGroupsUnknown", message }),
    );
    await noted("PodGroupsUnknown");
    expect((await test.client.list(Job, { namespace })).items).toEqual([]);
  });

  it("does not blame the scheduler for a namespace that was deleted", async () => {
    await start();
    const job = rhinoJobOf();
    const deleted = { ...job, metadata: { ...job.metadata, namespace: "gone" } };
    const context = { client: test.client, signal: new AbortController().signal };
    const group = { name: "pi", spec: { minMember: 3 } };
    await expect(applyPodGroup(deleted, group, gang, context, "test")).rejects.toThrow(/namespaces "gone" not found/);
  });

  it("keeps the status of a running job current after a scheduling policy that the PodGroup rejects", async () => {
    const limited = structuredClone(crds) as unknown as { spec: { versions: { schema: { openAPIV3Schema: object } }[] } }[];
    const minMember = { type: "integer", minimum: 1 };
    for (const { spec } of limited)
      for (const { schema } of spec.versions)
        schema.openAPIV3Schema = {
          type: "object",
          properties: {
            spec: { type: "object", "x-kubernetes-preserve-unknown-fields": true, properties: { minMember } },
            status: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
          },
        };
    await start(limited as unknown as typeof crds);
    const job = await test.create();
    await test.reached((each) => each?.status?.attempt === 1);
    await test.client.patch(
      RhinoJob,
      { namespace, name: "pi" },
      { type: "merge", body: { spec: { runPolicy: { schedulingPolicy: { minAvailable: 0 } } } } as never },
    );
    await noted("PodGroupRejected");
    await test.endJob(namesOf(job).launcher, "Complete", "CompletionsReached");
    await test.reached((each) => each?.status?.jobStatus === "Completed");
  });

  it("does not adopt a PodGroup of another owner, and does not delete it", async () => {
    await start();
    const job = await test.create({ runPolicy: { suspend: true } });
    await test.reached((each) => each?.status?.jobStatus === "Suspended");
    const name = groupOf(job);
    await foreignGroup(name);
    await suspend(false);
    const failed = await test.reached((each) => each?.status?.jobStatus === "Failed");
    expect(failed?.status?.message).toBe(`PodGroup ${name} has another owner`);
    const group = await test.client.get(type, { namespace, name });
    expect([group.spec.minMember, group.metadata.ownerReferences]).toEqual([7, undefined]);
  });

  it("stops the launcher of a later attempt whose workers are rejected", async () => {
    await start();
    const job = await test.create();
    const { launcher } = namesOf(job);
    await test.reached((each) => each?.status?.attempt === 1);
    await suspend(true);
    await test.reached((each) => each?.status?.jobStatus === "Suspended");
    await suspend(false, { workerTemplate: { spec: { nodeSelector: { "no label!": "" } } } });
    const failed = await test.reached((each) => each?.status?.jobStatus === "Failed");
    expect(failed?.status).toMatchObject({ attempt: 2 });
    expect(failed?.status?.conditions).toContainEqual(expect.objectContaining({ type: "Failed", reason: "Refused" }));
    const second = launcher.replace("-launcher", "-a2-launcher");
    await watched(test.client, Job, second, (each) => each?.spec.suspend === true);
  });
});
