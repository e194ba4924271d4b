import type { IngressBackend, IngressClassObject, IngressObject } from "@keelson/api-machinery/kinds";
import {
  dns1035LabelFaults,
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  forbiddenCause,
  invalidCause,
  pathSegmentFaults,
  requiredCause,
  type StatusCause,
  tooLongCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import type { Received, ReceivedObject } from "../../received.ts";
import type { Causes } from "../../causes.ts";

type Ingress = ReceivedObject<IngressObject>;

/** Validates a networking.k8s.io/v1 Ingress. */
export function* ingressCauses(object: Ingress): Causes {
  const spec = object.spec;
  const rules = spec?.rules ?? [];

  if (rules.length === 0 && spec?.defaultBackend === undefined) {
    // kube-apiserver prints an internal field that is unset.
    yield invalidCause("spec", null, "either `defaultBackend` or `rules` must be specified");
  }
  if (spec?.defaultBackend !== undefined) {
    yield* backendCauses(spec?.defaultBackend, "spec.defaultBackend");
  }
  for (const [index, rule] of rules.entries()) {
    yield;
    const host = rule.host ?? "";
    const at = `spec.rules[${index}]`;
    yield* check.dnsSubdomain(`${at}.host`, host.replace(/^\*\./, ""));
    if (check.isIpAddress(host)) yield invalidCause(`${at}.host`, host, "must be a DNS name, not an IP address");
    if (rule.http !== undefined && (rule.http.paths ?? []).length === 0) yield requiredCause(`${at}.http.paths`);
    for (const [number, path] of (rule.http?.paths ?? []).entries()) {
      yield;
      const field = `${at}.http.paths[${number}]`;
      const type = path.pathType;
      if (type === undefined) {
        yield requiredCause(`${field}.pathType`, "pathType must be specified");
        continue;
      }
      yield* check.oneOf(`${field}.pathType`, type, ["Exact", "ImplementationSpecific", "Prefix"]);
      const text = path.path ?? "";
      yield* pathCauses(text, type, `${field}.path`);
      yield* backendCauses(path.backend, `${field}.backend`);
    }
  }
  yield* certificateCauses(spec);
}

/** Sequences that an Ingress path must not contain, and those that it must not end with. */
const forbiddenParts = ["//", "/./", "/../", "%2f", "%2F"];
const forbiddenEnds = ["/..", "/."];

function pathCauses(path: string, type: unknown, field: string): StatusCause[] {
  const isPlain = type === "Exact" || type === "Prefix";
  if (!path.startsWith("/")) {
    return isPlain || path !== "" ? [invalidCause(field, path, "must be an absolute path")] : [];
  }
  if (!isPlain) return [];
  return [
    ...forbiddenParts
      .filter((part) => path.includes(part))
      .map((part) => invalidCause(field, path, `must not contain '${part}'`)),
    ...forbiddenEnds.filter((end) => path.endsWith(end)).map((end) => invalidCause(field, path, `cannot end with '${end}'`)),
  ];
}

/** Validates the class and certificates of an Ingress. */
function* certificateCauses(spec: Ingress["spec"]): Causes {
  const name = spec?.ingressClassName;
  yield* name === undefined
    ? []
    : dns1123SubdomainFaults(name).map((fault) => invalidCause("spec.ingressClassName", name, fault));
  for (const [index, certificate] of (spec?.tls ?? []).entries()) {
    yield;
    const at = `spec.tls[${index}]`;
    for (const [number, host] of (certificate.hosts ?? []).entries()) {
      yield;
      if (typeof host !== "string") continue;
      const domain = host.replace(/^\*\./, "");
      yield* dns1123SubdomainFaults(domain).map((fault) => invalidCause(`${at}.hosts[${number}]`, host, fault));
    }
    yield* check.dnsSubdomain(`${at}.secretName`, certificate.secretName);
  }
}

function* backendCauses(backend: Received<IngressBackend> | undefined, path: string): Causes {
  if (backend === undefined) return;
  const service = backend.service;
  const resource = backend.resource;
  if (service === undefined && resource === undefined) {
    yield invalidCause(path, "", "resource or service backend is required");
    return;
  }
  if (service !== undefined && resource !== undefined) {
    yield invalidCause(path, "", "cannot set both resource and service backends");
    return;
  }
  if (service === undefined) {
    yield* referenceCauses(resource, `${path}.resource`);
    return;
  }
  const number = service.port?.number || undefined;
  const name = service.port?.name || undefined;
  const serviceName = service.name ?? "";
  yield* serviceName === ""
    ? [requiredCause(`${path}.service.name`)]
    : dns1035LabelFaults(serviceName).map((fault) => invalidCause(`${path}.service.name`, serviceName, fault));
  // kube-apiserver reports this at the backend.
  if (number === undefined && name === undefined) yield requiredCause(path, "port name or number is required");
  if (number !== undefined && name !== undefined) {
    yield invalidCause(path, "", "cannot set both port name & port number");
    return;
  }
  if (name !== undefined) {
    yield* check.portNameFaults(name).map((fault) => invalidCause(`${path}.service.port.name`, name, fault));
  }
  yield* check.portNumber(`${path}.service.port.number`, number);
}

/** Validates a reference to an object of any kind. */
function referenceCauses(
  reference: Received<{ apiGroup?: string; kind?: string; name?: string }> | undefined,
  path: string,
): StatusCause[] {
  const group = reference?.apiGroup;
  const causes =
    group === undefined ? [] : dns1123SubdomainFaults(group).map((fault) => invalidCause(`${path}.apiGroup`, group, fault));
  for (const field of ["kind", "name"] as const)
    causes.push(...pathSegmentCauses(`${path}.${field}`, reference?.[field] ?? ""));
  return causes;
}

function pathSegmentCauses(field: string, value: string): StatusCause[] {
  if (value === "") return [requiredCause(field)];
  return pathSegmentFaults(value).map((fault) => invalidCause(field, value, fault));
}

const maxControllerLength = 250;

/** Validates a networking.k8s.io/v1 IngressClass. */
export function* classCauses(object: ReceivedObject<IngressClassObject>): Causes {
  const controller = object.spec?.controller ?? "";
  yield* controller.length > maxControllerLength ? [tooLongCause("spec.controller", maxControllerLength)] : [];
  yield* check.domainPrefixedPath("spec.controller", controller);
  const parameters = object.spec?.parameters;
  if (parameters === undefined) return;
  const path = "spec.parameters";
  yield* referenceCauses(parameters, path);
  const { scope, namespace } = parameters;
  if (scope === undefined) {
    yield requiredCause(`${path}.scope`);
    return;
  }
  yield* check.oneOf(`${path}.scope`, scope, ["Cluster", "Namespace"]);
  if (scope === "Namespace") {
    if (namespace === undefined) {
      yield requiredCause(`${path}.namespace`, "`parameters.scope` is set to 'Namespace'");
    } else yield* dns1123LabelFaults(namespace).map((fault) => invalidCause(`${path}.namespace`, namespace, fault));
  } else if (scope === "Cluster" && namespace !== undefined) {
    yield forbiddenCause(`${path}.namespace`, "`parameters.scope` is set to 'Cluster'");
  }
}
