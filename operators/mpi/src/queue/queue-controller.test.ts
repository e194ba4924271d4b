import type { DeepReadonly } from "@keelson/api-machinery";
import { Event, Job, Node, PriorityClass } from "@keelson/api-machinery/kinds";
import { watched } from "@keelson/client/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MPIJob } from "../api/mpi-job.ts";
import { MPIQueue } from "../api/mpi-queue.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import { namesOf, namespace, OperatorEnvironment, readyPod } from "../testing/operator-environment.ts";

let operator: OperatorEnvironment;

beforeEach(async () => {
  operator = await OperatorEnvironment.start();
});
afterEach(() => operator.stop());

/** A job of two workers that request this much cpu each. */
const requesting = (cpu: string, rest: Partial<RhinoJob["spec"]> = {}): Partial<RhinoJob["spec"]> => ({
  workerTemplate: { spec: { containers: [{ resources: { requests: { cpu } } }] } },
  ...rest,
});
const isAdmitted = (job: DeepReadonly<RhinoJob> | undefined): boolean => job?.status?.queue?.admittedAttempt === 1;
const isAt = (position: number) => (job: DeepReadonly<RhinoJob> | undefined) => job?.status?.queue?.position === position;
const launcherOf = (job: DeepReadonly<RhinoJob>) =>
  watched(operator.client, Job, namesOf(job).launcher, (each) => each !== undefined);
const patch = (name: string, body: object) => operator.client.patch(MPIQueue, { name }, { type: "merge", body });

describe("the queue", () => {
  it("starts one of two jobs that each need 60 % of the nodes, and the other when the first has ended", async () => {
    await operator.addNode("n", { cpu: "10", pods: "100" });
    const first = await operator.create(requesting("3"), "first");
    await launcherOf(first);
    const second = await operator.create(requesting("3"), "second");
    const seen = await operator.reached(isAt(1), "second");
    expect(seen?.status?.queue).toMatchObject({
      name: "default",
      reason: "InsufficientCapacity",
      message: "2 of 3 Pods fit the free capacity of the nodes",
    });
    const waiting = await operator.reached((job) => job?.status?.jobStatus === "Pending", "second");
    expect(waiting?.status).toMatchObject({ message: "waits for admission by queue default: InsufficientCapacity" });
    expect(waiting?.status?.startTime).toBeUndefined();
    await operator.endJob(namesOf(first).launcher, "Complete", "CompletionsReached");
    await launcherOf(second);
    const admitted = await operator.reached((job) => job?.status?.startTime !== undefined, "second");
    expect(admitted?.status?.queue).toMatchObject({ admittedAttempt: 1 });
    expect(admitted?.status?.queue?.position).toBeUndefined();
    const reasons = async () =>
      (await operator.client.list(Event, { namespace, fieldSelector: "involvedObject.name=second" })).items.map(
        ({ reason }) => reason,
      );
    await expect.poll(reasons, { timeout: 30_000 }).toEqual(expect.arrayContaining(["Queued", "Admitted"]));
  });

  it("counts the Pods of a job that has ended until they have ended too", async () => {
    await operator.addNode("n", { cpu: "10", pods: "100" });
    const first = await operator.create(requesting("3"), "first");
    const { launcher, workers } = namesOf(first);
    await launcherOf(first);
    await operator.pod(launcher, "first-l", readyPod, "n");
    await watched(operator.client, Job, workers, (each) => each !== undefined);
    for (const index of [0, 1]) await operator.pod(workers, `first-w-${index}`, { phase: "Running" }, "n");
    await operator.create(requesting("2.5"), "second");
    await operator.reached(isAt(1), "second");
    // The job has ended, but its workers have not.
    await operator.endJob(launcher, "Complete", "CompletionsReached");
    await operator.setPod("first-l", { phase: "Succeeded" });
    await operator.reached((job) => job?.status?.jobStatus === "Completed", "first");
    // A job that is queued now is evidence of a plan after that end.
    await operator.create(requesting("2.5"), "third");
    await operator.reached(isAt(2), "third");
    const second = await operator.reached(() => true, "second");
    expect(second?.status?.queue).toMatchObject({ position: 1, reason: "InsufficientCapacity" });
    expect(second?.status?.queue?.admittedAttempt).toBeUndefined();
    for (const index of [0, 1]) await operator.setPod(`first-w-${index}`, { phase: "Succeeded" });
    await operator.reached(isAdmitted, "second");
  });

  it.each([
    ["tolerations", { tolerations: 5 }, "spec.launcherTemplate.spec.tolerations: Invalid value: 5: must be a list"],
    ["affinity", { affinity: [] }, "spec.launcherTemplate.spec.affinity: Invalid value: []: must be an object"],
    ["nodeSelector", { nodeSelector: "a" }, 'spec.launcherTemplate.spec.nodeSelector: Invalid value: "a": must be an object'],
    ["containers", { containers: 5 }, "spec.launcherTemplate.spec.containers: Invalid value: 5: must be a list"],
    ["env", { containers: [{ env: 5 }] }, "spec.launcherTemplate.spec.containers[0].env: Invalid value: 5: must be a list"],
  ])("admits other jobs alongside one with malformed %s, which is refused", async (_field, spec, message) => {
    await operator.addNode("n", { cpu: "10", pods: "100" });
    await operator.create({ launcherTemplate: { spec } } as never, "malformed");
    await launcherOf(await operator.create(requesting("2"), "other"));
    const malformed = await operator.reached((job) => job?.status?.jobStatus === "Failed", "malformed");
    expect(malformed?.status?.message).toBe(message);
  });

  it("admits other jobs alongside an MPIJob with malformed commands, which is refused", async () => {
    await operator.addNode("n", { cpu: "10", pods: "100" });
    const template = { spec: { containers: [{ name: "c", image: "x", command: 5 }] } };
    await operator.client.create(MPIJob, {
      metadata: { name: "malformed", namespace },
      spec: { mpiReplicaSpecs: { Launcher: { template } } },
    } as never);
    await launcherOf(await operator.create(requesting("2"), "other"));
    const malformed = await watched(operator.client, MPIJob, "malformed", (job) => job?.status?.jobStatus === "Failed");
    expect(malformed?.status?.message).toContain("containers[0].command: Invalid value: 5: must be a list");
  });

  it("admits other jobs if the status of one cannot be written", async () => {
    await operator.stopOperator();
    const failing = new Proxy(operator.client, {
      get(client, key) {
        const value: unknown = Reflect.get(client, key, client);
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          const [, object] = args as [unknown, { readonly metadata?: { readonly name?: string } } | undefined];
          if (key === "applyStatus" && object?.metadata?.name === "unwritable") return Promise.reject(new Error("rejected"));
          return Reflect.apply(value, client, args);
        };
      },
    });
    await operator.addNode("n", { cpu: "10", pods: "100" });
    await operator.create(requesting("1"), "unwritable");
    await operator.create(requesting("1"), "writable");
    await operator.startOperator(failing);
    await operator.reached(isAdmitted, "writable");
  });

  it("orders jobs by PriorityClass, and both kinds together", async () => {
    await operator.client.create(PriorityClass, { metadata: { name: "urgent" }, value: 1000 });
    await operator.addNode("n", { cpu: "4", pods: "100" });
    const first = await operator.create(requesting("2"), "first");
    await launcherOf(first);
    await operator.create(requesting("2"), "second");
    await operator.reached(isAt(1), "second");
    const container = { name: "c", image: "x", command: ["mpirun"], resources: { requests: { cpu: "2" } } };
    const Worker = { replicas: 2, template: { spec: { containers: [container] } } };
    await operator.client.create(MPIJob, {
      metadata: { name: "third", namespace },
      spec: {
        runPolicy: { schedulingPolicy: { priorityClass: "urgent" } },
        mpiReplicaSpecs: { Launcher: { template: { spec: { containers: [{ ...container, resources: {} }] } } }, Worker },
      },
    });
    await watched(operator.client, MPIJob, "third", (job) => job?.status?.queue?.position === 1);
    await operator.reached(isAt(2), "second");
    await operator.endJob(namesOf(first).launcher, "Complete", "CompletionsReached");
    await watched(operator.client, MPIJob, "third", (job) => job?.status?.queue?.admittedAttempt === 1);
    await operator.reached(isAt(1), "second");
  });

  it("admits a job when a node is added or uncordoned", async () => {
    await operator.addNode("n", { cpu: "1", pods: "100" });
    await operator.create(requesting("2"));
    const seen = await operator.reached((job) => job?.status?.queue?.reason === "ExceedsCapacity");
    expect(seen?.status?.queue?.position).toBeUndefined();
    await operator.client.create(Node, { metadata: { name: "m" }, spec: { unschedulable: true } });
    const status = { allocatable: { cpu: "4", pods: "10" }, conditions: [{ type: "Ready", status: "True" }] };
    await operator.client.patch(Node, { name: "m" }, { type: "merge", body: { status } }, { subresource: "status" });
    await operator.client.patch(Node, { name: "m" }, { type: "merge", body: { spec: { unschedulable: null } } });
    await operator.reached(isAdmitted);
  });

  it("enforces the quotas of an MPIQueue and reports their use", async () => {
    const spec = { quota: { cpu: "4" } };
    await operator.client.create(MPIQueue, { metadata: { name: "team" }, spec });
    const runPolicy = { schedulingPolicy: { queue: "team" } };
    await launcherOf(await operator.create(requesting("2", { runPolicy }), "first"));
    await operator.create(requesting("500m", { runPolicy }), "second");
    const second = await operator.reached((job) => job?.status?.queue?.reason === "QuotaExceeded", "second");
    expect(second?.status?.queue?.message).toBe("queue team: requests 1 cpu, 4 of 4 used");
    const queue = await watched(operator.client, MPIQueue, "team", (each) => each?.status?.pending === 1);
    expect(queue?.status).toMatchObject({ admitted: 1, used: { cpu: "4", pods: "3" } });
    await patch("team", { spec: { quota: { cpu: "5" } } });
    await operator.reached(isAdmitted, "second");
    await operator.create({ runPolicy: { schedulingPolicy: { queue: "other" } } }, "third");
    await operator.reached((job) => job?.status?.queue?.reason === "QueueNotFound", "third");
  });

  it("holds a queue and releases it", async () => {
    await operator.client.create(MPIQueue, { metadata: { name: "default" }, spec: { hold: true } });
    await operator.create();
    await operator.reached((job) => job?.status?.queue?.reason === "QueueHeld");
    await patch("default", { spec: { hold: false } });
    await operator.reached(isAdmitted);
  });

  it("leaves jobs with a LocalQueue to Kueue, which suspends and resumes them", async () => {
    await operator.client.create(MPIQueue, { metadata: { name: "default" }, spec: { hold: true } });
    const job = await operator.create({ runPolicy: { suspend: true } }, "pi", { "kueue.x-k8s.io/queue-name": "team" });
    await operator.reached((each) => each?.status?.jobStatus === "Suspended");
    const body = { spec: { runPolicy: { suspend: false } } };
    await operator.client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body });
    await launcherOf(job);
    const seen = await operator.reached((each) => each?.status?.startTime !== undefined);
    expect(seen?.status?.queue).toBeUndefined();
  });

  it("takes the admission back from a job that is suspended before it starts, and queues it again when it is resumed", async () => {
    await operator.addNode("n", { cpu: "4", pods: "100" });
    const first = await operator.create(requesting("2"), "first");
    await launcherOf(first);
    const second = await operator.create(requesting("2"), "second");
    await operator.reached(isAt(1), "second");
    const suspend = (name: string, value: boolean) =>
      operator.client.patch(
        RhinoJob,
        { namespace, name },
        { type: "merge", body: { spec: { runPolicy: { suspend: value } } } },
      );
    await suspend("first", true);
    await launcherOf(second);
    await suspend("first", false);
    const again = await operator.reached(isAt(1), "first");
    expect(again?.status?.queue?.admittedAttempt).toBeUndefined();
    await operator.endJob(namesOf(second).launcher, "Complete", "CompletionsReached");
    await operator.reached((job) => job?.status?.queue?.admittedAttempt === 2, "first");
  });

  it("keeps its decisions over a restart of the operator", async () => {
    await operator.addNode("n", { cpu: "4", pods: "100" });
    const first = await operator.create(requesting("2"), "first");
    await launcherOf(first);
    const second = await operator.create(requesting("2"), "second");
    await operator.reached(isAt(1), "second");
    await operator.stopOperator();
    await operator.create(requesting("1"), "third");
    await operator.startOperator();
    await operator.reached(isAt(2), "third");
    await operator.endJob(namesOf(first).launcher, "Complete", "CompletionsReached");
    await launcherOf(second);
    await operator.reached(isAt(1), "third");
  });
});
