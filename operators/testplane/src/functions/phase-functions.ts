import {
  type CheckFunction,
  type CheckResult,
  type ExtractorFunction,
  fail,
  type Params,
  pass,
  type Resource,
} from "./function.ts";
import { numberAt, objectsAt, stringAt, textOf, valueAt } from "./read.ts";

/*
 * Functions for Cluster and Instance, the kinds of the platform that TestPlane was written for. Both have a phase and a
 * transition in `status`, security groups and nodes.
 */

function inPhase(resource: Resource, phase: string, ignoreTransition: boolean): CheckResult {
  const [actual, transition] = [stringAt(resource, "status", "phase"), stringAt(resource, "status", "transitionStatus")];
  const shown = transition === "" ? actual : `${actual} (${transition})`;
  if (actual !== phase) return fail(`the phase is ${JSON.stringify(actual)}, not ${JSON.stringify(phase)}`, shown);
  return transition === "" || ignoreTransition ? pass(shown) : fail(`still in transition: ${transition}`, shown);
}

const phaseCheck = (name: string, phase: string): CheckFunction => ({
  name,
  params: {},
  check: (resource) => inPhase(resource, phase, false),
});

const phaseEquals = (name: string): CheckFunction => ({
  name,
  params: { phase: { type: "string", required: true }, ignoreTransition: { type: "boolean" } },
  check: (resource, params) => inPhase(resource, String(params["phase"]), params["ignoreTransition"] === true),
});

/** IDs of the attached security groups: objects with a state on Clusters, plain strings on Instances. */
function securityGroups(resource: Resource): readonly string[] {
  const list = valueAt(resource, "status", "securityGroups");
  if (!Array.isArray(list)) return [];
  return list.flatMap((each: unknown) => {
    if (typeof each === "string") return [each];
    if (typeof each !== "object" || each === null) return [];
    const state = stringAt(each as NonNullable<Resource>, "state");
    return state === "" || state === "Attached" ? [stringAt(each as NonNullable<Resource>, "id")] : [];
  });
}

function hasSecurityGroup(resource: Resource, params: Params, expected: boolean): CheckResult {
  const groups = securityGroups(resource);
  const id = params["id"];
  const has = typeof id === "string" && id !== "" ? groups.includes(id) : groups.length > 0;
  const actual = groups.join(",");
  if (has === expected) return pass(actual);
  const what = typeof id === "string" && id !== "" ? `security group ${id}` : "a security group";
  return fail(expected ? `${what} is not attached` : `${what} is attached`, actual);
}

const groupExists = (name: string): CheckFunction => ({
  name,
  params: { id: { type: "string" }, expected: { type: "boolean" } },
  check: (resource, params) => hasSecurityGroup(resource, params, params["expected"] !== false),
});

const groupAbsent = (name: string): CheckFunction => ({
  name,
  params: { id: { type: "string" } },
  check: (resource, params) => hasSecurityGroup(resource, params, false),
});

/** Checks of the phase of a cluster and its parts. */
export const phaseFunctions: readonly CheckFunction[] = [
  phaseCheck("ClusterReady", "active"),
  phaseCheck("ClusterPending", "pending"),
  phaseCheck("ClusterStopped", "stopped"),
  phaseCheck("ClusterDeleted", "deleted"),
  phaseCheck("ClusterCeased", "ceased"),
  {
    name: "ClusterHealthy",
    params: {},
    check: (resource) => {
      const active = inPhase(resource, "active", false);
      if (!active.passed) return active;
      const health = stringAt(resource, "status", "health");
      return health.toLowerCase() === "healthy" ? pass(health) : fail(`the health is ${JSON.stringify(health)}`, health);
    },
  },
  phaseEquals("ClusterPhaseEquals"),
  {
    name: "ClusterNodeCount",
    params: { expected: { type: "integer", required: true } },
    check: (resource, params) => {
      const nodes = valueAt(resource, "status", "nodes");
      const count = Array.isArray(nodes) ? nodes.length : 0;
      return count === params["expected"]
        ? pass(String(count))
        : fail(`${count} nodes, not ${String(params["expected"])}`, String(count));
    },
  },
  groupExists("ClusterSecurityGroupExists"),
  groupAbsent("ClusterSecurityGroupNotExists"),
  phaseCheck("InstanceReady", "running"),
  phaseCheck("InstanceStopped", "stopped"),
  phaseCheck("InstancePending", "pending"),
  phaseCheck("InstanceSuspended", "suspended"),
  phaseCheck("InstanceTerminated", "terminated"),
  phaseCheck("InstanceCeased", "ceased"),
  phaseEquals("InstancePhaseEquals"),
  groupExists("InstanceSecurityGroupExists"),
  groupAbsent("InstanceSecurityGroupNotExists"),
];

/** The address of the node at `index` among the nodes with this role, in the order of `nodeDetails`. Default role: any. */
function nodeAddress(resource: Resource, params: Params): string | undefined {
  const role = params["role"];
  const nodes = objectsAt(resource, "status", "nodes");
  const index = numberAt(params, ["index"], 0);
  if (typeof role !== "string" || role === "") return stringAt(nodes[index], "privateIP") || undefined;
  const details =
    valueAt(resource, "displayTabs", "nodeDetails") === undefined
      ? ["status", "displayTabs", "nodeDetails"]
      : ["displayTabs", "nodeDetails"];
  const ids = objectsAt(resource, ...details)
    .filter((detail) => stringAt(detail, "node-role").toLowerCase() === role.toLowerCase())
    .map((detail) => stringAt(detail, "node-id"));
  const found = nodes.find((node) => stringAt(node, "nodeID") === ids[index]);
  return stringAt(found, "privateIP") || undefined;
}

const someText = (value: unknown): string | undefined =>
  value === undefined || value === null || value === "" ? undefined : textOf(value);

const nodeParams = { role: { type: "string" }, index: { type: "integer" } } as const;

/** Extractors of values from the status of a cluster. */
export const clusterExtractors: readonly ExtractorFunction[] = [
  {
    name: "ClusterNodeURL",
    params: nodeParams,
    extract: (resource, params) => {
      const address = nodeAddress(resource, params);
      return address === undefined ? undefined : `http://${address}`;
    },
  },
  { name: "ClusterNodeIP", params: nodeParams, extract: nodeAddress },
  { name: "ClusterID", params: {}, extract: (resource) => someText(valueAt(resource, "status", "clusterID")) },
  {
    name: "ClusterVIP",
    params: { name: { type: "string", required: true } },
    extract: (resource, params) => someText(valueAt(resource, "spec", "endpoints", "reservedVIPs", String(params["name"]))),
  },
  {
    name: "ClusterClientPort",
    params: {},
    extract: (resource) => someText(valueAt(resource, "spec", "endpoints", "clientPort")),
  },
];
