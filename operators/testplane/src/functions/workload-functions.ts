import { type CheckFunction, type CheckResult, fail, never, pass, type Resource } from "./function.ts";
import { conditionOf, numberAt, objectsAt, stringAt, valueAt } from "./read.ts";

const isAbsent = (resource: Resource): resource is undefined => resource === undefined || Object.keys(resource).length === 0;

/** A check that an object has to be there for. */
function onObject(name: string, check: (resource: NonNullable<Resource>) => CheckResult): CheckFunction {
  return {
    name,
    params: {},
    check: (resource) => (isAbsent(resource) ? fail("there is no such object", "absent") : check(resource)),
  };
}

/** The controller has taken note of the newest spec: what `status` counts is about it. */
function staleness(resource: NonNullable<Resource>): CheckResult | undefined {
  const generation = numberAt(resource, ["metadata", "generation"], 0);
  const observed = numberAt(resource, ["status", "observedGeneration"], generation);
  return observed < generation ? fail(`its status is about generation ${observed}, not ${generation}`) : undefined;
}

const wantedReplicas = (resource: Resource): number => numberAt(resource, ["spec", "replicas"], 1);

function counts(resource: NonNullable<Resource>, fields: readonly string[]): CheckResult {
  const wanted = wantedReplicas(resource);
  const actual = fields.map((field) => `${field}=${numberAt(resource, ["status", field], 0)}`).join(", ");
  const lacking = fields.filter((field) => numberAt(resource, ["status", field], 0) < wanted);
  return lacking.length === 0 ? pass(actual) : fail(`wants ${wanted} replicas; ${actual}`, actual);
}

/** A rollout that its controller has given up. */
function deadRollout(resource: NonNullable<Resource>): CheckResult | undefined {
  const condition = conditionOf(resource, "Progressing");
  return condition?.["status"] === "False" && condition["reason"] === "ProgressDeadlineExceeded"
    ? never(`the rollout was given up: ${stringAt(condition, "message") || "ProgressDeadlineExceeded"}`)
    : undefined;
}

/** Reasons that a container waits for and that do not pass without a change of its Pod. */
const hopeless = new Set(["InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"]);

function podReady(pod: NonNullable<Resource>): CheckResult {
  const phase = stringAt(pod, "status", "phase") || "Pending";
  if (phase === "Failed" || phase === "Succeeded") return never(`the Pod has ended: ${phase}`, phase);
  const containers = objectsAt(pod, "status", "containerStatuses");
  for (const container of containers) {
    const reason = stringAt(container, "state", "waiting", "reason");
    if (hopeless.has(reason)) return never(`container ${stringAt(container, "name")} cannot start: ${reason}`, reason);
  }
  if (phase !== "Running") return fail(`the Pod is ${phase}`, phase);
  const unready = containers.filter((container) => container["ready"] !== true);
  if (unready.length > 0) {
    return fail(`containers are not ready: ${unready.map((container) => stringAt(container, "name")).join(", ")}`, phase);
  }
  const ready = conditionOf(pod, "Ready");
  return ready !== undefined && ready["status"] !== "True" ? fail("its Ready condition is not True", phase) : pass(phase);
}

function podComplete(pod: NonNullable<Resource>): CheckResult {
  const phase = stringAt(pod, "status", "phase") || "Pending";
  if (phase === "Succeeded") return pass(phase);
  return phase === "Failed" ? never("the Pod failed", phase) : fail(`the Pod is ${phase}`, phase);
}

function jobComplete(job: NonNullable<Resource>): CheckResult {
  const failed = conditionOf(job, "Failed");
  if (failed?.["status"] === "True") {
    return never(`the Job failed: ${stringAt(failed, "message") || stringAt(failed, "reason")}`, "Failed");
  }
  const succeeded = numberAt(job, ["status", "succeeded"], 0);
  const completions = numberAt(job, ["spec", "completions"], 1);
  const actual = `${succeeded}/${completions}`;
  if (conditionOf(job, "Complete")?.["status"] === "True" || succeeded >= completions) return pass(actual);
  return fail(`${actual} completions`, actual);
}

function statefulSetReady(set: NonNullable<Resource>): CheckResult {
  const stale = staleness(set);
  if (stale) return stale;
  const replicas = counts(set, ["readyReplicas"]);
  if (!replicas.passed) return replicas;
  const isManual = stringAt(set, "spec", "updateStrategy", "type") === "OnDelete";
  const partition = numberAt(set, ["spec", "updateStrategy", "rollingUpdate", "partition"], 0);
  const [current, update] = [stringAt(set, "status", "currentRevision"), stringAt(set, "status", "updateRevision")];
  if (isManual || partition > 0 || current === update) return replicas;
  return fail(`still rolling out: ${current} -> ${update}`, replicas.actual);
}

function daemonSetReady(set: NonNullable<Resource>): CheckResult {
  const stale = staleness(set);
  if (stale) return stale;
  if (typeof valueAt(set, "status", "desiredNumberScheduled") !== "number") return fail("it has no status yet");
  const desired = numberAt(set, ["status", "desiredNumberScheduled"], 0);
  const ready = numberAt(set, ["status", "numberReady"], 0);
  const updated = numberAt(set, ["status", "updatedNumberScheduled"], desired);
  const actual = `${ready}/${desired}`;
  return ready >= desired && updated >= desired ? pass(actual) : fail(`${actual} Pods are ready, ${updated} updated`, actual);
}

function serviceReady(service: NonNullable<Resource>): CheckResult {
  const type = stringAt(service, "spec", "type") || "ClusterIP";
  if (type === "ExternalName") {
    const name = stringAt(service, "spec", "externalName");
    return name === "" ? fail("it has no externalName") : pass(name);
  }
  const ip = stringAt(service, "spec", "clusterIP");
  if (ip === "") return fail("it has no cluster IP yet");
  if (ip !== "None") return pass(ip);
  const selector = valueAt(service, "spec", "selector");
  return typeof selector === "object" && selector !== null ? pass("headless") : fail("it is headless and selects nothing");
}

/** What is done with the kinds of Kubernetes itself. */
export const workloadFunctions: readonly CheckFunction[] = [
  {
    name: "ResourceExists",
    params: {},
    check: (resource) => (isAbsent(resource) ? fail("there is no such object", "absent") : pass("present")),
  },
  {
    name: "ResourceNotExists",
    params: {},
    check: (resource) => (isAbsent(resource) ? pass("absent") : fail("the object is there", "present")),
  },
  onObject(
    "DeploymentAvailable",
    (deployment) => staleness(deployment) ?? counts(deployment, ["availableReplicas", "readyReplicas"]),
  ),
  onObject("DeploymentReady", (deployment) => {
    const stale = staleness(deployment);
    if (stale) return stale;
    const result = counts(deployment, ["availableReplicas", "updatedReplicas"]);
    return result.passed ? result : (deadRollout(deployment) ?? result);
  }),
  onObject("StatefulSetReady", statefulSetReady),
  onObject("DaemonSetReady", daemonSetReady),
  onObject("PodReady", podReady),
  onObject("PodComplete", podComplete),
  onObject("JobComplete", jobComplete),
  // `minReadyAddresses` is taken as TestPlane documents it, and like there endpoints are not looked at.
  { ...onObject("ServiceReady", serviceReady), params: { minReadyAddresses: { type: "integer" } } },
  onObject("PVCBound", (claim) => {
    const phase = stringAt(claim, "status", "phase") || "Pending";
    if (phase === "Bound") return pass(phase);
    return phase === "Lost" ? never("its volume is lost", phase) : fail(`the claim is ${phase}`, phase);
  }),
];
