import type { DeepReadonly } from "@keelson/api-machinery";
import type { NodeObject, PodObject, RuntimeClassObject } from "@keelson/api-machinery/kinds";
import { describe, expect, it } from "vitest";
import { at, rhinoJobOf, t0 } from "../testing/objects.ts";
import { planAdmissions } from "./admission-plan.ts";
import { queueStateOf } from "./queue-state.ts";

const node: DeepReadonly<NodeObject> = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "n" },
  status: { allocatable: { cpu: "4", pods: "100" }, conditions: [{ type: "Ready", status: "True" }] },
};
const spec = { parallelism: 1, workerTemplate: { spec: { containers: [{ resources: { requests: { cpu: "3" } } }] } } };
/** A job that has ended, whose Pods may still run. */
const ended = rhinoJobOf({}, { name: "ended", status: { jobStatus: "Completed" } });
const waiting = {
  ...rhinoJobOf(spec, { name: "waiting" }),
  metadata: { ...rhinoJobOf().metadata, name: "waiting", uid: "waiting-uid" },
};

/** A Pod of two cpus on the node, with the label of an MPI job's Pods. */
function podOf(rhinoID: string, metadata: Partial<PodObject["metadata"]> = {}): DeepReadonly<PodObject> {
  const ownerReferences = [{ apiVersion: "batch/v1", kind: "Job", name: "j", uid: "j", controller: true }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "default", labels: { rhinoID }, ownerReferences, ...metadata },
    spec: { nodeName: "n", containers: [{ name: "c", resources: { requests: { cpu: "2" } } }] },
    status: { phase: "Running" },
  } as DeepReadonly<PodObject>;
}

function reasonBeside(pod: DeepReadonly<PodObject>): string | undefined {
  const tools = { kind: "local", command: ["mpi"] } as const;
  const objects = {
    jobs: [ended, waiting],
    nodes: [node],
    pods: [pod],
    priorityClasses: [],
    runtimeClasses: [],
    queues: [],
    tools,
    now: t0,
  };
  const [verdict] = planAdmissions(queueStateOf(objects));
  return verdict?.kind === "admitted" ? undefined : verdict?.reason;
}

it("counts the overhead and the nodes of a RuntimeClass", () => {
  const verdictWith = (fields: Partial<RuntimeClassObject>) => {
    const runtimeClass: RuntimeClassObject = {
      ...{ apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", metadata: { name: "kata" }, handler: "kata" },
      ...fields,
    };
    const workerTemplate = { spec: { ...spec.workerTemplate.spec, runtimeClassName: "kata" } };
    const jobs = [rhinoJobOf({ parallelism: 1, workerTemplate })];
    const tools = { kind: "local", command: ["mpi"] } as const;
    const objects = { jobs, nodes: [node], pods: [], queues: [], tools, now: t0 };
    return planAdmissions(queueStateOf({ ...objects, priorityClasses: [], runtimeClasses: [runtimeClass] }))[0]?.kind;
  };
  expect(verdictWith({ overhead: { podFixed: { cpu: "1" } } })).toBe("admitted");
  expect(verdictWith({ overhead: { podFixed: { cpu: "1001m" } } })).toBe("inadmissible");
  expect(verdictWith({ scheduling: { nodeSelector: { sandboxed: "yes" } } })).toBe("inadmissible");
});

describe("a Pod with the label of an MPI job", () => {
  it("is ending if its job has ended, so that other jobs wait for its capacity", () => {
    expect(reasonBeside(podOf(ended.metadata.uid ?? ""))).toBe("InsufficientCapacity");
  });

  it("does not count as ending if its job is not known, because any user can set the label", () => {
    expect(reasonBeside(podOf("no-such-job"))).toBe("ExceedsCapacity");
    expect(reasonBeside(podOf(ended.metadata.uid ?? "", { namespace: "other" }))).toBe("ExceedsCapacity");
    expect(reasonBeside(podOf(ended.metadata.uid ?? "", { ownerReferences: [] }))).toBe("ExceedsCapacity");
  });

  it("is ending if it is being deleted, regardless of its job", () => {
    expect(reasonBeside(podOf("no-such-job", { deletionTimestamp: at(0) }))).toBe("InsufficientCapacity");
  });
});
