import type { NodeObject } from "@keelson/api-machinery/kinds";
import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  labelValueFaults,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column, proxyVerbs } from "../../builtin/builtin-resource.ts";
import { parseAddressBlock } from "../../address-blocks.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, listAt, setField, textAt } from "../../object-fields.ts";
import type { Draft, DraftObject, ReceivedObject } from "../../received.ts";
import type { ServedResource } from "../../served-resource.ts";
import type { Causes } from "../../causes.ts";

type Read = ReceivedObject<NodeObject>;

/** Nodes. */
export function nodeKinds(): readonly ServedResource[] {
  return [
    builtinResource<NodeObject>({
      group: "",
      version: "v1",
      kind: "Node",
      plural: "nodes",
      shortNames: ["no"],
      scope: "Cluster",
      hasStatus: true,
      columns: [
        column("Status", "Ready, NotReady or Unknown, and whether it is cordoned."),
        column("Roles", "The roles in its labels node-role.kubernetes.io/*."),
        ageColumn,
        column("Version", "The kubelet's version."),
        column("Internal-IP", "The address in the cluster.", { wide: true }),
        column("External-IP", "The address outside the cluster.", { wide: true }),
        column("OS-Image", "The operating system.", { wide: true }),
        column("Kernel-Version", "The kernel version.", { wide: true }),
        column("Container-Runtime", "The container runtime.", { wide: true }),
      ],
      cells: nodeCells,
      selectableFields: { "spec.unschedulable": (node) => String(node.spec?.unschedulable === true) },
      subresources: [{ name: "proxy", kind: "NodeProxyOptions", verbs: proxyVerbs, isProxy: true }],
      strategy: {
        hasGeneration: false,
        warnings: (node) =>
          textAt(node, "spec", "externalID") === ""
            ? []
            : ["spec.externalID: this field is deprecated, and is unused by Kubernetes"],
        default: (node) => {
          agreeOnBlocks(node.spec);
          // Dynamic configuration of the kubelet was removed from Kubernetes.
          if (node.spec !== undefined) setField(node.spec, "configSource", undefined);
          defaultStatus(node);
        },
        status: { default: defaultStatus },
        prepareForCreate: (node) => {
          ensureMap(node, "spec");
          if (node.status === undefined) setField(node, "status", structuredClone(unreported));
        },
        prepareForUpdate: (node) => void ensureMap(node, "spec"),
        validate: nodeCauses,
        validateUpdate: updateCauses,
      },
    }),
  ];
}

/** Allocatable defaults to capacity. */
function defaultStatus(node: DraftObject<NodeObject>): void {
  const status = node.status;
  const capacity = status?.capacity;
  if (status !== undefined && status.allocatable === undefined && capacity !== undefined) {
    setField(status, "allocatable", structuredClone(capacity));
  }
}

/** `podCIDR` is the first of `podCIDRs`. Sets a missing one from the other, in place; `podCIDR` wins if they differ. */
function agreeOnBlocks(spec: Draft<NodeObject>["spec"]): void {
  if (spec === undefined) return;
  const first = spec.podCIDRs?.[0] ?? "";
  const one = spec.podCIDR ?? "";
  if (one !== "" && one !== first) spec.podCIDRs = [one];
  else if (one === "" && first !== "") spec.podCIDR = first;
}

/** The status of a Node whose kubelet has not reported yet. */
const unreported = {
  daemonEndpoints: { kubeletEndpoint: { Port: 0 } },
  nodeInfo: Object.fromEntries(
    [
      "architecture",
      "bootID",
      "containerRuntimeVersion",
      "kernelVersion",
      "kubeProxyVersion",
      "kubeletVersion",
      "machineID",
      "operatingSystem",
      "osImage",
      "systemUUID",
    ].map((name) => [name, ""]),
  ),
};

function* nodeCauses(node: Read): Causes {
  const taints = new Set<string>();
  for (const [index, taint] of (node.spec?.taints ?? []).entries()) {
    yield;
    // As in kube-apiserver, the path is not that of the field.
    const at = `metadata.taints[${index}]`;
    const key = taint.key ?? "";
    yield* labelKeyFaults(key).map((fault) => invalidCause(`${at}.key`, key, fault));
    const faults = labelValueFaults(taint.value ?? "");
    if (faults.length > 0) yield invalidCause(`${at}.value`, taint.value, faults.join(";"));
    const effect = taint.effect;
    if (effect === "") yield* check.nonEmpty(`${at}.effect`, effect);
    else yield* check.oneOf(`${at}.effect`, effect, ["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    const identity = `${key}:${String(effect)}`;
    if (taints.has(identity)) yield duplicateCause(at, taint);
    taints.add(identity);
  }
  for (const [index, block] of (node.spec?.podCIDRs ?? []).entries()) {
    yield;
    if (typeof block === "string" && parseAddressBlock(block) !== undefined) continue;
    const rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    yield invalidCause(`spec.podCIDRs[${index}]`, block, rule);
  }
  yield* familyCauses(node.spec?.podCIDRs ?? []);
}

/** Several blocks are one of each IP family. */
function familyCauses(blocks: readonly string[]): StatusCause[] {
  const malformed = blocks.findIndex((block) => parseAddressBlock(block) === undefined);
  const families = new Set(blocks.map((block) => block.includes(":")));
  if (blocks.length < 2 || (blocks.length === 2 && families.size === 2 && malformed < 0)) return [];
  const causes: StatusCause[] = [];
  if (malformed >= 0) {
    const why = `invalid CIDR[${malformed}]: <nil> (invalid CIDR address: ${blocks[malformed]})`;
    const message = `Internal error: invalid PodCIDRs. failed to check with dual stack with error:${why}`;
    causes.push({ reason: "InternalError", field: "spec.podCIDRs", message });
  }
  const detail = "may specify no more than one CIDR for each IP family";
  return [...causes, invalidCause("spec.podCIDRs", blocks, detail)];
}

function updateCauses(node: Read, old: Read): StatusCause[] {
  const causes = blockUpdateCauses(listAt(node, "spec", "podCIDRs"), listAt(old, "spec", "podCIDRs"));
  const provider = textAt(old, "spec", "providerID");
  if (provider !== "" && provider !== textAt(node, "spec", "providerID")) {
    causes.push(forbiddenCause("spec.providerID", 'node updates may not change providerID except from "" to valid'));
  }
  if (textAt(old, "spec", "externalID") !== textAt(node, "spec", "externalID")) {
    causes.push(forbiddenCause("spec.externalID", "may not be updated"));
  }
  return causes;
}

/** Blocks can be set once. Of as many blocks, each changed one is reported. */
function blockUpdateCauses(blocks: readonly unknown[], before: readonly unknown[]): StatusCause[] {
  if (before.length === 0) return [];
  const changed = blocks.length === before.length ? blocks.filter((block, index) => block !== before[index]) : [blocks];
  const detail = 'node updates may not change podCIDR except from "" to valid';
  return changed.map(() => forbiddenCause("spec.podCIDRs", detail));
}

const rolePrefix = "node-role.kubernetes.io/";

function nodeCells(node: Read, now: number): readonly string[] {
  const ready = (node.status?.conditions ?? []).find((condition) => condition.type === "Ready");
  const states = [ready === undefined ? "Unknown" : ready.status === "True" ? "Ready" : "NotReady"];
  if (node.spec?.unschedulable === true) states.push("SchedulingDisabled");
  const labels = Object.entries(node.metadata.labels ?? {});
  const roles = labels
    .map(([key, value]) =>
      key.startsWith(rolePrefix) ? key.slice(rolePrefix.length) : key === "kubernetes.io/role" ? value : "",
    )
    .filter((role) => role !== "");
  const info = (field: string): string => textAt(node, "status", "nodeInfo", field) || "<unknown>";
  return [
    states.join(","),
    roles.length === 0 ? "<none>" : roles.sort().join(","),
    age(node.metadata.creationTimestamp, now),
    node.status?.nodeInfo?.kubeletVersion ?? "",
    addressOf(node, "InternalIP"),
    addressOf(node, "ExternalIP"),
    info("osImage"),
    info("kernelVersion"),
    info("containerRuntimeVersion"),
  ];
}

function addressOf(node: Read, type: string): string {
  const found = (node.status?.addresses ?? []).find((address) => (address.type ?? "") === type);
  return found?.address || "<none>";
}
