import { type DeepReadonly, type JsonObject, type KubernetesObject, statusError } from "@keelson/api-machinery";
import { forbiddenCause, invalidCause } from "@keelson/api-machinery/validation";
import type { Store } from "../../../storage/store.ts";
import { builtinResource, column, proxyVerbs } from "../../builtin/builtin-resource.ts";
import { nameWarnings, templateWarnings } from "../pod-template-warnings.ts";
import { ensureMap, keepField, listAt, objectAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { labelsText } from "../network/services.ts";
import { podCells, podColumns, podRowConditions } from "./cells.ts";
import { defaultPodSpec, defaultPodTemplate, defaultRunningSpec } from "./defaults.ts";
import { priorityOf } from "./priority.ts";
import { qualityOfService } from "./quality-of-service.ts";
import { keepAllButResources, resizeCauses } from "./resize.ts";
import { podSpecCauses, podTemplateCauses } from "./validation/spec-validation.ts";
import { agreeOnAddresses, ephemeralCauses, podStatusCauses } from "./validation/status-validation.ts";
import { podUpdateCauses } from "./validation/update-validation.ts";
import { podWarnings } from "./warnings.ts";
import type { Causes } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

/** Pods with their subresources, and PodTemplates. PriorityClasses are read from the store. */
export function podKinds(store: Pick<Store, "get" | "list">): readonly ServedResource[] {
  return [
    builtinResource({
      group: "",
      version: "v1",
      kind: "Pod",
      plural: "pods",
      shortNames: ["po"],
      categories: ["all"],
      scope: "Namespaced",
      hasStatus: true,
      columns: podColumns,
      cells: podCells,
      rowConditions: podRowConditions,
      selectableFields,
      subresources: [
        { name: "attach", kind: "PodAttachOptions", verbs: ["create", "get"] },
        { name: "binding", kind: "Binding", verbs: ["create"] },
        {
          name: "ephemeralcontainers",
          kind: "Pod",
          verbs: ["get", "patch", "update"],
          prepareForUpdate: keepAllButEphemeral,
          validateUpdate: ephemeralCauses,
        },
        { name: "eviction", kind: "Eviction", group: "policy", version: "v1", verbs: ["create"] },
        { name: "exec", kind: "PodExecOptions", verbs: ["create", "get"] },
        { name: "log", kind: "Pod", verbs: ["get"] },
        { name: "portforward", kind: "PodPortForwardOptions", verbs: ["create", "get"] },
        { name: "proxy", kind: "PodProxyOptions", verbs: proxyVerbs, isProxy: true },
        {
          name: "resize",
          kind: "Pod",
          verbs: ["get", "patch", "update"],
          prepareForUpdate: keepAllButResources,
          validateUpdate: resizeCauses,
        },
      ],
      strategy: {
        defaultGraceSeconds: 30,
        default: defaultPod,
        prepareForCreate: (pod) => prepare(pod, store),
        prepareForUpdate: keepAdmitted,
        validate: podCauses,
        // Updates of Pods, which are frequent, do not warn.
        warnings: (pod, old) =>
          old === undefined
            ? [...nameWarnings(pod, "in the Pod's hostname"), ...podWarnings(pod.metadata, valueAt(pod, "spec"), "spec")]
            : [],
        status: { default: agreeOnAddresses },
        validateCreate: (pod) =>
          objectsAt(valueAt(pod, "spec"), "ephemeralContainers").length === 0
            ? []
            : [forbiddenCause("spec.ephemeralContainers", "cannot be set on create")],
        *validateUpdate(pod, old) {
          yield* podUpdateCauses(pod, old);
          yield* podStatusCauses(pod, old);
        },
      },
    }),
    builtinResource({
      group: "",
      version: "v1",
      kind: "Binding",
      plural: "bindings",
      scope: "Namespaced",
      verbs: ["create"],
      strategy: { hasGeneration: false },
    }),
    builtinResource({
      group: "",
      version: "v1",
      kind: "PodTemplate",
      plural: "podtemplates",
      scope: "Namespaced",
      columns: [
        column("Containers", "Names of the containers."),
        column("Images", "Images of the containers."),
        column("Pod Labels", "Labels of the template."),
      ],
      cells: (object) => {
        const containers = listAt(object, "template", "spec", "containers");
        const textsOf = (name: string): string => containers.map((container) => textAt(container, name)).join(",");
        return [textsOf("name"), textsOf("image"), labelsText(objectAt(object, "template", "metadata", "labels") ?? {})];
      },
      strategy: {
        warnings: templateWarnings(["template"], false),
        default: (object) => defaultPodTemplate(objectAt(object, "template")),
        validate: (object) => podTemplateCauses(valueAt(object, "template"), "template"),
      },
    }),
  ];
}

const selectableFields: ServedResource["selectableFields"] = {
  "spec.host": (pod) => textAt(pod, "spec", "nodeName"),
  "spec.nodeName": (pod) => textAt(pod, "spec", "nodeName"),
  "spec.restartPolicy": (pod) => textAt(pod, "spec", "restartPolicy"),
  "spec.schedulerName": (pod) => textAt(pod, "spec", "schedulerName"),
  "spec.serviceAccountName": (pod) => textAt(pod, "spec", "serviceAccountName"),
  "spec.hostNetwork": (pod) => String(valueAt(pod, "spec", "hostNetwork") === true),
  "status.phase": (pod) => textAt(pod, "status", "phase"),
  "status.podIP": (pod) => textAt(pod, "status", "podIPs", 0, "ip") || textAt(pod, "status", "podIP"),
  "status.podIPs": (pod) => textAt(pod, "status", "podIPs", 0, "ip"),
  "status.nominatedNodeName": (pod) => textAt(pod, "status", "nominatedNodeName"),
};

/** The taints of failed nodes, which Pods tolerate for a while. */
const nodeFaults = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

function defaultPod(pod: KubernetesObject): void {
  const spec = objectAt(pod, "spec");
  if (spec === undefined) return;
  defaultPodSpec(spec);
  defaultRunningSpec(spec);
  agreeOnAddresses(pod);
}

/** Fills in what creation adds, including the built-in admission's part: status, service account, priority, tolerations. */
function prepare(pod: KubernetesObject, store: Pick<Store, "get" | "list">): void {
  const spec = objectAt(pod, "spec");
  if (spec === undefined) return;
  setField(pod, "status", { phase: "Pending", qosClass: qualityOfService(spec) });
  // A mirror pod must not get the permissions of a service account.
  if (pod.metadata.annotations?.["kubernetes.io/config.mirror"] === undefined) {
    spec["serviceAccountName"] ??= "default";
    spec["serviceAccount"] ??= spec["serviceAccountName"];
  }
  admitPriority(pod, spec, store);
  addTolerations(spec);
  if (objectsAt(spec, "schedulingGates").length > 0) {
    const waiting = {
      type: "PodScheduled",
      status: "False",
      lastProbeTime: null,
      lastTransitionTime: pod.metadata.creationTimestamp ?? null,
      reason: "SchedulingGated",
      message: "Scheduling is blocked due to non-empty scheduling gates",
    };
    ensureMap(pod, "status")["conditions"] = [waiting];
  }
}

/** Sets the priority of the Pod's class. A Pod whose own priority contradicts its class is `Forbidden`. */
function admitPriority(pod: KubernetesObject, spec: JsonObject, store: Pick<Store, "get" | "list">): void {
  const className = textAt(spec, "priorityClassName");
  const reject = (why: string): never => {
    const { name = "" } = pod.metadata;
    const subject = `pods ${JSON.stringify(name)}`;
    throw statusError("Forbidden", `${subject} is forbidden: ${why}`, { ...(name === "" ? {} : { name }), kind: "pods" });
  };
  const priority = priorityOf(store, className) ?? reject(`no PriorityClass with name ${className} was found`);
  const advice = "must not be provided in pod spec; priority admission controller computed";
  for (const [field, what, value] of [
    ["priority", "integer value of priority", priority.value],
    ["preemptionPolicy", "string value of PreemptionPolicy", priority.preemptionPolicy],
  ] as const) {
    const given = spec[field];
    if (given !== undefined && given !== value) {
      reject(`the ${what} (${String(given)}) ${advice} ${value} from the given PriorityClass name`);
    }
    spec[field] = value;
  }
  if (priority.name !== "") spec["priorityClassName"] = priority.name;
}

/** Keeps what admission added at creation if an update omits it. */
function keepAdmitted(pod: KubernetesObject, old: Read): void {
  const spec = objectAt(pod, "spec");
  if (spec === undefined) return;
  for (const field of ["priority", "priorityClassName", "preemptionPolicy"]) {
    if (spec[field] === undefined) setField(spec, field, valueAt(old, "spec", field));
  }
  // These are set through a subresource: clients that do not know them may omit them.
  if (spec["ephemeralContainers"] === undefined) keepField(spec, valueAt(old, "spec") as object, "ephemeralContainers");
  addTolerations(spec);
}

function addTolerations(spec: JsonObject): void {
  const tolerations = [...objectsAt(spec, "tolerations")];
  for (const key of nodeFaults) {
    const isTolerated = tolerations.some(
      (one) => (one["key"] === key || !one["key"]) && (one["effect"] === "NoExecute" || !one["effect"]),
    );
    if (!isTolerated) tolerations.push({ key, operator: "Exists", effect: "NoExecute", tolerationSeconds: 300 });
  }
  spec["tolerations"] = tolerations;
}

function* podCauses(pod: Read): Causes {
  yield* podSpecCauses(valueAt(pod, "spec"), "spec");
  const spec = valueAt(pod, "spec");
  // kube-apiserver tolerates surrounding whitespace in Pod templates for compatibility.
  for (const field of ["containers", "initContainers"]) {
    for (const [index, container] of listAt(spec, field).entries()) {
      yield;
      const image = textAt(container, "image");
      if (image === image.trim()) continue;
      const detail = "must not have leading or trailing whitespace";
      yield invalidCause(`spec.${field}[${index}].image`, image, detail);
    }
  }
  if (textAt(spec, "nodeName") !== "" && objectsAt(spec, "schedulingGates").length > 0) {
    yield forbiddenCause("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
  }
}

/** A write through `ephemeralcontainers` changes nothing else. */
function keepAllButEphemeral(pod: KubernetesObject, old: Read): void {
  const ephemeral = valueAt(pod, "spec", "ephemeralContainers");
  const spec = structuredClone(valueAt(old, "spec")) as JsonObject;
  setField(spec, "ephemeralContainers", ephemeral);
  setField(pod, "spec", spec);
  const { labels, annotations, finalizers } = old.metadata;
  for (const [name, value] of Object.entries({ labels, annotations, finalizers })) {
    setField(pod.metadata, name, value === undefined ? undefined : structuredClone(value));
  }
}
