import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { forbidden, invalid } from "../../endpoints/errors.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import type { AdmissionRequest, AdmissionStep } from "../admission.ts";
import {
  describeLevel,
  describeViolations,
  isAtLeastAsStrict,
  labelCauses,
  type LevelVersion,
  policyOf,
  type PodSecurityPolicy,
  violationsOf,
} from "./policy.ts";

/** Requests to which Pod Security does not apply. */
export interface PodSecurityExemptions {
  readonly usernames?: readonly string[];
  readonly namespaces?: readonly string[];
  readonly runtimeClasses?: readonly string[];
}

/** Of the annotations of audit events. */
const annotationPrefix = "pod-security.kubernetes.io/";

const namespaces = { group: "", plural: "namespaces" };
const pods = { group: "", plural: "pods" };

/** Where the Pod template of each workload kind is. */
const templatePaths: Readonly<Record<string, readonly string[]>> = {
  "/podtemplates": ["template"],
  "/replicationcontrollers": ["spec", "template"],
  "apps/daemonsets": ["spec", "template"],
  "apps/deployments": ["spec", "template"],
  "apps/replicasets": ["spec", "template"],
  "apps/statefulsets": ["spec", "template"],
  "batch/cronjobs": ["spec", "jobTemplate", "spec", "template"],
  "batch/jobs": ["spec", "template"],
};

/**
 * Pod Security admission (KEP-2579): Pods that violate the level in the `pod-security.kubernetes.io/enforce` label of their namespace are
 * rejected; violations of `warn` by Pods and Pod templates are returned as warnings, those of `audit` are annotations of the audit event.
 */
export function podSecurity(store: Pick<Store, "get" | "list">, exemptions: PodSecurityExemptions = {}): AdmissionStep {
  const { usernames = [], namespaces: exemptNamespaces = [], runtimeClasses = [] } = exemptions;
  return {
    name: "PodSecurity",
    appliesTo({ operation, resource }) {
      if (operation !== "CREATE" && operation !== "UPDATE") return false;
      const kind = `${resource.group}/${resource.plural}`;
      return kind === "/namespaces" || kind === "/pods" || Object.hasOwn(templatePaths, kind);
    },
    review(request) {
      const { resource, object, namespace, user } = request;
      if (object === undefined) return;
      const kind = `${resource.group}/${resource.plural}`;
      if (kind === "/namespaces") return reviewNamespace(store, request, object, exemptNamespaces);
      const template = Object.hasOwn(templatePaths, kind) ? templatePaths[kind] : undefined;
      if (usernames.includes(user.username)) return exempt(request, "user");
      if (exemptNamespaces.includes(namespace)) return exempt(request, "namespace");
      const policy = policyOf(store.get(storageKey(namespaces, "", namespace))?.object.metadata.labels);
      const spec = template === undefined ? valueAt(object, "spec") : valueAt(object, ...template, "spec");
      if (runtimeClasses.includes(textAt(spec, "runtimeClassName"))) return exempt(request, "runtimeClass");
      if (template === undefined) reviewPod(request, spec, policy);
      else if (request.subresource === "" && spec !== undefined) {
        auditOf(request, spec, policy.audit);
        warnOf(request, spec, policy.warn);
      }
    },
  };
}

/** Records why Pod Security does not apply to a request. */
function exempt(request: AdmissionRequest, reason: "user" | "namespace" | "runtimeClass"): void {
  request.annotate?.(`${annotationPrefix}exempt`, reason);
}

function reviewPod(request: AdmissionRequest, spec: unknown, { enforce, audit, warn }: PodSecurityPolicy): void {
  const { resource, name, object, oldObject, subresource } = request;
  if (subresource !== "" && subresource !== "ephemeralcontainers") return;
  if (oldObject !== undefined && !isSignificant(spec, valueAt(oldObject, "spec"))) return;
  request.annotate?.(`${annotationPrefix}enforce-policy`, describeLevel(enforce));
  const violations = violationsOf(spec, enforce);
  auditOf(request, spec, audit);
  if (violations.length > 0) {
    const why = `violates PodSecurity ${JSON.stringify(describeLevel(enforce))}: ${describeViolations(violations)}`;
    throw forbidden(resource, object?.metadata.name ?? name, why);
  }
  warnOf(request, spec, warn);
}

function warnOf(request: AdmissionRequest, spec: unknown, level: LevelVersion): void {
  const text = wouldViolate(spec, level);
  if (text !== undefined) request.warn(text);
}

/** Records violations in the audit event. */
function auditOf(request: AdmissionRequest, spec: unknown, level: LevelVersion): void {
  if (request.annotate === undefined) return;
  const text = wouldViolate(spec, level);
  if (text !== undefined) request.annotate(`${annotationPrefix}audit-violations`, text);
}

function wouldViolate(spec: unknown, level: LevelVersion): string | undefined {
  const violations = violationsOf(spec, level);
  if (violations.length === 0) return undefined;
  return `would violate PodSecurity ${JSON.stringify(describeLevel(level))}: ${describeViolations(violations)}`;
}

/** Whether an update can change what the checks look at: images, or the set of containers. */
function isSignificant(spec: unknown, old: unknown): boolean {
  return ["initContainers", "containers", "ephemeralContainers"].some((field) => {
    const [now, before] = [listAt(spec, field), listAt(old, field)];
    return (
      now.length !== before.length ||
      now.some((container, index) => textAt(container, "image") !== textAt(before[index], "image"))
    );
  });
}

/** Validates the labels of a namespace, and warns of existing Pods that violate a new level. */
function reviewNamespace(
  store: Pick<Store, "list">,
  request: AdmissionRequest,
  object: KubernetesObject,
  exemptNamespaces: readonly string[],
): void {
  const { oldObject, subresource } = request;
  if (subresource !== "") return;
  const { name = "", labels } = object.metadata;
  const causes = labelCauses(labels);
  const isUnchanged = oldObject !== undefined && labelCauses(oldObject.metadata.labels).length > 0;
  if (causes.length > 0 && !isUnchanged) throw invalid({ group: "", kind: "Namespace" }, name, causes);
  if (oldObject === undefined || exemptNamespaces.includes(name)) return;
  const [enforce, before] = [policyOf(labels).enforce, policyOf(oldObject.metadata.labels).enforce];
  if (isAtLeastAsStrict(before, enforce) || enforce.level === "privileged") return;
  const warnings = podWarnings(store, name, enforce);
  if (warnings.length === 0) return;
  const subject = `existing pods in namespace ${JSON.stringify(name)}`;
  request.warn(`${subject} violate the new PodSecurity enforce level ${JSON.stringify(describeLevel(enforce))}`);
  for (const text of warnings) request.warn(text);
}

/** One warning for each combination of violations: `a (and 2 other pods): privileged`. */
function podWarnings(store: Pick<Store, "list">, namespace: string, level: LevelVersion): readonly string[] {
  const byReasons = new Map<string, string[]>();
  for (const { object } of store.list(storageKey(pods, namespace, "")).items) {
    const reasons = violationsOf(specOf(object), level)
      .map(({ reason }) => reason)
      .join(", ");
    if (reasons !== "") byReasons.set(reasons, [...(byReasons.get(reasons) ?? []), object.metadata.name ?? ""]);
  }
  return [...byReasons]
    .map(([reasons, [first = "", ...others]]) => {
      const more = others.length === 0 ? "" : ` (and ${others.length} other ${others.length === 1 ? "pod" : "pods"})`;
      return `${first}${more}: ${reasons}`;
    })
    .sort();
}

function specOf(object: DeepReadonly<KubernetesObject>): unknown {
  return valueAt(object, "spec");
}
