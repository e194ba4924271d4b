import type { Container, DownwardApiFile, PodSpec, PodTemplate, Probe, Volume } from "@keelson/api-machinery/kinds";
import { formatQuantity } from "@keelson/api-machinery/quantity";
import { mapAt, objectAt, setField, textAt } from "../../object-fields.ts";
import type { Draft } from "../../received.ts";
import { containerRequests } from "./pod-resources.ts";

/** Sets the defaults of a PodTemplateSpec (core/v1) in place. */
export function defaultPodTemplate(template: Draft<PodTemplate> | undefined): void {
  if (template !== undefined) defaultPodSpec(template.spec);
}

/** Sets the defaults of every PodSpec in place. Those of Pods alone are in {@link defaultRunningSpec}. */
export function defaultPodSpec(spec: Draft<PodSpec> | undefined): void {
  if (spec === undefined) return;
  // The feature gate GenericWorkload is off in Kubernetes 1.35.
  Reflect.deleteProperty(spec, "workloadRef");
  spec.restartPolicy ??= "Always";
  spec.terminationGracePeriodSeconds ??= 30;
  spec.dnsPolicy ??= "ClusterFirst";
  spec.securityContext ??= {};
  spec.schedulerName ??= "default-scheduler";
  // The deprecated field mirrors the new one, which wins.
  const account = spec.serviceAccountName || spec.serviceAccount || "";
  if (account !== "") {
    spec.serviceAccountName = account;
    spec.serviceAccount = account;
  }
  for (const container of containersOf(spec)) defaultContainer(container);
  for (const volume of spec.volumes ?? []) defaultVolume(volume);
}

/** Sets defaults of a Pod's spec that templates lack: service links, requests equal to limits, host ports. */
export function defaultRunningSpec(spec: Draft<PodSpec>): void {
  spec.enableServiceLinks ??= true;
  for (const container of [...(spec.initContainers ?? []), ...(spec.containers ?? [])]) {
    const limits = container.resources?.limits;
    if (limits !== undefined) {
      const requests = ((container.resources ??= {}).requests ??= {});
      for (const [name, amount] of Object.entries(limits)) if (!Object.hasOwn(requests, name)) requests[name] = amount;
    }
    if (spec.hostNetwork !== true) continue;
    for (const port of container.ports ?? []) {
      if (!port.hostPort && port.containerPort !== undefined) port.hostPort = port.containerPort;
    }
  }
  defaultOwnRequests(spec);
  const grace = spec.terminationGracePeriodSeconds;
  if (grace !== undefined && grace < 0) spec.terminationGracePeriodSeconds = 1;
}

/** Requests of a Pod itself with limits: what its containers request together, else the limits. */
function defaultOwnRequests(spec: Draft<PodSpec>): void {
  const own = objectAt(spec, "resources");
  const limits = mapAt(own, "limits");
  if (own === undefined || Object.keys(limits).length === 0) return;
  const requests = { ...mapAt(own, "requests") };
  for (const [name, sum] of Object.entries(containerRequests(spec))) {
    if (name === "cpu" || name === "memory") requests[name] ??= formatQuantity(sum);
  }
  for (const [name, limit] of Object.entries(limits)) {
    if (/^(?:cpu|memory|hugepages-.+)$/.test(name)) requests[name] ??= limit;
  }
  if (Object.keys(requests).length > 0) setField(own, "requests", requests);
}

/** All containers of a PodSpec: init, regular, ephemeral. */
function containersOf({
  initContainers = [],
  containers = [],
  ephemeralContainers = [],
}: Draft<PodSpec>): readonly Draft<Container>[] {
  return [...initContainers, ...containers, ...ephemeralContainers];
}

function defaultContainer(container: Draft<Container>): void {
  container.resources ??= {};
  container.terminationMessagePath ??= "/dev/termination-log";
  container.terminationMessagePolicy ??= "File";
  container.imagePullPolicy ??= isLatest(container.image ?? "") ? "Always" : "IfNotPresent";
  for (const port of container.ports ?? []) port.protocol ??= "TCP";
  for (const variable of container.env ?? []) {
    defaultFieldReference(variable.valueFrom?.fieldRef);
    defaultDivisor(variable.valueFrom?.resourceFieldRef);
  }
  for (const name of ["livenessProbe", "readinessProbe", "startupProbe"] as const) defaultProbe(container[name]);
  for (const hook of ["postStart", "preStop"] as const) defaultHttpGet(container.lifecycle?.[hook]?.httpGet);
}

/** Bounds the input of the expression below. */
const maxImageLength = 1024;

const imageComponent = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const imageDomain =
  "(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?";
const imageName = new RegExp(
  `^(?:${imageDomain}/)?${imageComponent}(?:/${imageComponent})*(?::\\w[\\w.-]{0,127})?(?:@[A-Za-z][\\w.+-]*:[0-9a-fA-F]{32,})?$`,
);

/** Whether an image has no tag or digest, or the tag `latest`. A name that cannot be read has no tag. */
function isLatest(image: string): boolean {
  if (image.length > maxImageLength || !imageName.test(image)) return false;
  const name = image.slice(image.lastIndexOf("/") + 1);
  if (name.includes("@")) return false;
  const colon = name.lastIndexOf(":");
  return colon < 0 || name.slice(colon + 1) === "latest";
}

function defaultProbe(probe: Draft<Probe> | undefined): void {
  if (probe === undefined) return;
  probe.timeoutSeconds ||= 1;
  probe.periodSeconds ||= 10;
  probe.successThreshold ||= 1;
  probe.failureThreshold ||= 3;
  defaultHttpGet(probe.httpGet);
  const grpc = probe.grpc;
  if (grpc !== undefined) grpc.service ??= "";
}

function defaultHttpGet(action: Draft<Probe>["httpGet"]): void {
  if (action === undefined) return;
  action.path ||= "/";
  action.scheme ||= "HTTP";
}

function defaultFieldReference(reference: { apiVersion?: string } | undefined): void {
  if (reference !== undefined) reference.apiVersion ||= "v1";
}

function defaultDivisor(reference: { divisor?: string } | undefined): void {
  if (reference !== undefined) reference.divisor ??= "0";
}

/** rw-r--r-- */
const defaultMode = 0o644;

/** Defaults of volume sources. */
export const sourceDefaults: Readonly<Record<string, Readonly<Record<string, string | boolean>>>> = {
  azureDisk: { cachingMode: "ReadWrite", fsType: "ext4", kind: "Shared", readOnly: false },
  hostPath: { type: "" },
  iscsi: { iscsiInterface: "default" },
  rbd: { keyring: "/etc/ceph/keyring", pool: "rbd", user: "admin" },
  scaleIO: { fsType: "xfs", storageMode: "ThinProvisioned" },
};

function defaultVolume(volume: Draft<Volume>): void {
  if (Object.keys(volume).every((name) => name === "name")) volume.emptyDir = {};
  for (const source of ["configMap", "secret", "downwardAPI", "projected"] as const) {
    const found = volume[source];
    if (found !== undefined) found.defaultMode ??= defaultMode;
  }
  for (const [source, values] of Object.entries(sourceDefaults)) {
    const found = objectAt(volume, source);
    for (const [field, value] of Object.entries(values)) if (found !== undefined) found[field] ??= value;
  }
  for (const item of volume.downwardAPI?.items ?? []) defaultDownward(item);
  for (const source of volume.projected?.sources ?? []) {
    for (const item of source.downwardAPI?.items ?? []) defaultDownward(item);
    const token = source.serviceAccountToken;
    if (token !== undefined) token.expirationSeconds ??= 3600;
  }
  const image = objectAt(volume, "image");
  if (image !== undefined) image["pullPolicy"] ??= isLatest(textAt(image, "reference")) ? "Always" : "IfNotPresent";
  const claim = volume.ephemeral?.volumeClaimTemplate?.spec;
  if (claim !== undefined) claim.volumeMode ??= "Filesystem";
}

function defaultDownward(item: Draft<DownwardApiFile>): void {
  defaultFieldReference(item.fieldRef);
  defaultDivisor(item.resourceFieldRef);
}
