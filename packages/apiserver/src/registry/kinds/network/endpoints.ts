import { jsonEquals } from "@keelson/api-machinery";
import type { EndpointSliceObject, EndpointsObject } from "@keelson/api-machinery/kinds";
import {
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  duplicateCause,
  invalidCause,
  labelValueFaults,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
  tooManyCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { listAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";
import type { ServedResource } from "../../served-resource.ts";
import { protocols } from "../pod/container-validation.ts";

type Endpoints = ReceivedObject<EndpointsObject>;
type Slice = ReceivedObject<EndpointSliceObject>;

/** Endpoints and EndpointSlices: the addresses of the Pods behind Services. */
export function endpointKinds(): readonly ServedResource[] {
  return [endpoints, endpointSlices];
}

const endpoints = builtinResource<EndpointsObject>({
  group: "",
  version: "v1",
  kind: "Endpoints",
  plural: "endpoints",
  singular: "endpoints",
  shortNames: ["ep"],
  scope: "Namespaced",
  columns: [column("Endpoints", "Addresses with ports."), ageColumn],
  deprecationWarning: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
  cells: (object, now) => [endpointsText(object), age(object.metadata.creationTimestamp, now)],
  strategy: {
    hasGeneration: false,
    default: (object) => {
      for (const subset of object.subsets ?? []) {
        for (const port of subset.ports ?? []) port.protocol ??= "TCP";
      }
    },
    validate: endpointsCauses,
  },
});

const endpointSlices = builtinResource<EndpointSliceObject>({
  group: "discovery.k8s.io",
  version: "v1",
  kind: "EndpointSlice",
  plural: "endpointslices",
  scope: "Namespaced",
  columns: [
    column("AddressType", "IPv4, IPv6 or FQDN."),
    column("Ports", "Ports of every endpoint."),
    column("Endpoints", "Addresses."),
    ageColumn,
  ],
  cells: (object, now) => [
    object.addressType ?? "",
    firstOf(
      (object.ports ?? []).map((port) => String(port.port ?? "*")),
      "<unset>",
    ),
    firstOf(
      (object.endpoints ?? []).flatMap((endpoint) => (endpoint.addresses ?? []).map(String)),
      "<unset>",
    ),
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    raisesGeneration: (object, old) => !jsonEquals(object.metadata.labels ?? {}, old.metadata.labels ?? {}),
    default: (object) => {
      // Only v1beta1 had it, under another name.
      for (const endpoint of object.endpoints ?? []) setField(endpoint, "deprecatedTopology", undefined);
      for (const port of object.ports ?? []) {
        port.name ??= "";
        port.protocol ??= "TCP";
      }
    },
    validate: sliceCauses,
    validateUpdate: (object, old) =>
      (object.addressType ?? "") === (old.addressType ?? "")
        ? []
        : [invalidCause("addressType", object.addressType ?? "", "field is immutable")],
  },
});

function endpointsCauses(object: Endpoints): StatusCause[] {
  const causes: StatusCause[] = [];
  for (const [at, subset] of (object.subsets ?? []).entries()) {
    const path = `subsets[${at}]`;
    const ports = subset.ports ?? [];
    if ((subset.addresses ?? []).length + (subset.notReadyAddresses ?? []).length === 0) {
      causes.push(requiredCause(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for (const field of ["addresses", "notReadyAddresses"] as const) {
      for (const [index, { ip = "", hostname = "", nodeName }] of (subset[field] ?? []).entries()) {
        const at = `${path}.${field}[${index}]`;
        const isAddress = check.isIpAddress(ip);
        if (!isAddress) causes.push(...addressCauses(`${at}.ip`, ip));
        if (hostname !== "") causes.push(...check.dnsLabel(`${at}.hostname`, hostname));
        const faults = nodeName === undefined ? [] : dns1123SubdomainFaults(nodeName);
        causes.push(...faults.map((fault) => invalidCause(`${at}.nodeName`, nodeName, fault)));
        // kube-apiserver reports a malformed address twice.
        if (isAddress) causes.push(...addressCauses(`${at}.ip`, ip));
        else causes.push(invalidCause(`${at}.ip`, ip, "must be a valid IP address"));
      }
    }
    for (const [index, port] of ports.entries()) {
      const field = `${path}.ports[${index}]`;
      const name = port.name ?? "";
      if (name === "" && ports.length > 1) causes.push(requiredCause(`${field}.name`));
      else if (name !== "") causes.push(...check.dnsLabel(`${field}.name`, name));
      causes.push(...check.portNumber(`${field}.port`, port.port));
      causes.push(...check.oneOf(`${field}.protocol`, port.protocol, protocols));
      causes.push(...protocolNameCauses(`${field}.appProtocol`, valueAt(port, "appProtocol")));
    }
  }
  return causes;
}

function protocolNameCauses(field: string, name: unknown): StatusCause[] {
  return typeof name === "string" ? qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault)) : [];
}

function addressCauses(field: string, address: string): StatusCause[] {
  if (!check.isIpAddress(address))
    return [invalidCause(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")];
  // Unlike in Kubernetes, loopback addresses are allowed: Pods on one machine have no others.
  return address === "0.0.0.0" || address === "::"
    ? [invalidCause(field, address, "may not be unspecified (0.0.0.0 or ::)")]
    : [];
}

const maxEndpoints = 1000;
const maxAddresses = 100;
const maxHints = 8;

function sliceCauses(object: Slice): StatusCause[] {
  const type = object.addressType ?? "";
  const endpoints = object.endpoints ?? [];
  const causes = type === "" ? [requiredCause("addressType")] : check.oneOf("addressType", type, ["FQDN", "IPv4", "IPv6"]);
  causes.push(...slicePortCauses(object.ports ?? []));
  if (endpoints.length > maxEndpoints) return [...causes, tooManyCause("endpoints", endpoints.length, maxEndpoints)];
  return [...causes, ...endpoints.flatMap((endpoint, index) => endpointCauses(endpoint, type, `endpoints[${index}]`))];
}

type Endpoint = NonNullable<Slice["endpoints"]>[number];

function endpointCauses(endpoint: Endpoint, type: string, path: string): StatusCause[] {
  const addresses = endpoint.addresses ?? [];
  const field = `${path}.addresses`;
  const causes = addresses.length === 0 ? [requiredCause(field, "must contain at least 1 address")] : [];
  if (addresses.length > maxAddresses) causes.push(tooManyCause(field, addresses.length, maxAddresses));
  for (const [index, address] of addresses.entries()) {
    if (typeof address !== "string") continue;
    if (type === "FQDN") causes.push(...check.domainName(`${field}[${index}]`, address));
    else if (type === "IPv4" || type === "IPv6") {
      const faults = addressCauses(`${field}[${index}]`, address);
      // kube-apiserver omits the index here.
      if (check.isIpAddress(address) && address.includes(":") !== (type === "IPv6")) {
        causes.push(invalidCause(field, address, `must be an ${type} address`));
      }
      causes.push(...faults);
    }
  }
  const node = endpoint.nodeName;
  if (node !== undefined) {
    causes.push(...dns1123SubdomainFaults(node).map((fault) => invalidCause(`${path}.nodeName`, node, fault)));
  }
  const hints = hintCauses(endpoint, `${path}.hints`);
  const hostname = endpoint.hostname;
  if (hostname === undefined) return [...causes, ...hints];
  const faults = dns1123LabelFaults(hostname).map((fault) => invalidCause(`${path}.hostname`, hostname, fault));
  return [...causes, ...faults, ...hints];
}

function hintCauses(endpoint: Endpoint, path: string): StatusCause[] {
  const zones = listAt(endpoint, "hints", "forZones");
  const nodes = listAt(endpoint, "hints", "forNodes");
  if (zones.length > maxHints) return [tooManyCause(`${path}.forZones`, zones.length, maxHints)];
  const causes = hintNameCauses(zones, `${path}.forZones`, labelValueFaults);
  if (nodes.length > maxHints) return [...causes, tooManyCause(`${path}.forNodes`, nodes.length, maxHints)];
  return [...causes, ...hintNameCauses(nodes, `${path}.forNodes`, dns1123SubdomainFaults)];
}

function hintNameCauses(hints: readonly unknown[], path: string, faultsOf: (name: string) => readonly string[]): StatusCause[] {
  const names = new Set<string>();
  return hints.flatMap((hint, index) => {
    const field = `${path}[${index}].name`;
    const name = textAt(hint, "name");
    const causes = names.has(name) ? [duplicateCause(field, name)] : [];
    names.add(name);
    return [...causes, ...faultsOf(name).map((fault) => invalidCause(field, name, fault))];
  });
}

function slicePortCauses(ports: NonNullable<Slice["ports"]>): StatusCause[] {
  const causes: StatusCause[] = [];
  const names = new Set<string>();
  for (const [index, port] of ports.entries()) {
    const path = `ports[${index}]`;
    const name = port.name ?? "";
    if (name !== "") causes.push(...check.dnsLabel(`${path}.name`, name));
    if (names.has(name)) causes.push(duplicateCause(`${path}.name`, name));
    names.add(name);
    causes.push(...check.oneOf(`${path}.protocol`, port.protocol, protocols));
    causes.push(...protocolNameCauses(`${path}.appProtocol`, valueAt(port, "appProtocol")));
  }
  return causes;
}

/** The first three, and the number of the others. */
function firstOf(texts: readonly string[], none: string): string {
  if (texts.length === 0) return none;
  const more = texts.length - 3;
  return more > 0 ? `${texts.slice(0, 3).join(",")} + ${more} more...` : texts.join(",");
}

function endpointsText(object: Endpoints): string {
  const texts = (object.subsets ?? []).flatMap((subset) => {
    const addresses = (subset.addresses ?? []).map((address) => address.ip ?? "");
    const ports = subset.ports ?? [];
    if (ports.length === 0) return addresses;
    return ports.flatMap((port) => addresses.map((address) => `${address}:${String(port.port)}`));
  });
  return firstOf(texts, "<none>");
}
