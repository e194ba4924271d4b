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
import { protocols } from "../pod/validation/container-validation.ts";
import { type Causes, eachItem } from "../../causes.ts";

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
      (object.ports ?? []).map((port) => String(port.port ?? port.name ?? "*")),
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

function* endpointsCauses(object: Endpoints): Causes {
  for (const [at, subset] of (object.subsets ?? []).entries()) {
    yield;
    const path = `subsets[${at}]`;
    const ports = subset.ports ?? [];
    if ((subset.addresses ?? []).length + (subset.notReadyAddresses ?? []).length === 0) {
      yield requiredCause(path, "must specify `addresses` or `notReadyAddresses`");
    }
    for (const field of ["addresses", "notReadyAddresses"] as const) {
      for (const [index, { ip = "", hostname = "", nodeName }] of (subset[field] ?? []).entries()) {
        yield;
        const at = `${path}.${field}[${index}]`;
        const isAddress = check.isIpAddress(ip);
        if (!isAddress) yield* addressCauses(`${at}.ip`, ip);
        if (hostname !== "") yield* check.dnsLabel(`${at}.hostname`, hostname);
        const faults = nodeName === undefined ? [] : dns1123SubdomainFaults(nodeName);
        yield* faults.map((fault) => invalidCause(`${at}.nodeName`, nodeName, fault));
        // kube-apiserver reports a malformed address twice.
        if (isAddress) yield* addressCauses(`${at}.ip`, ip);
        else yield invalidCause(`${at}.ip`, ip, "must be a valid IP address");
      }
    }
    for (const [index, port] of ports.entries()) {
      yield;
      const field = `${path}.ports[${index}]`;
      const name = port.name ?? "";
      if (name === "" && ports.length > 1) yield requiredCause(`${field}.name`);
      else if (name !== "") yield* check.dnsLabel(`${field}.name`, name);
      yield* check.portNumber(`${field}.port`, port.port);
      yield* check.oneOf(`${field}.protocol`, port.protocol, protocols);
      yield* protocolNameCauses(`${field}.appProtocol`, valueAt(port, "appProtocol"));
    }
  }
}

function protocolNameCauses(field: string, name: unknown): StatusCause[] {
  return typeof name === "string" ? qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault)) : [];
}

function addressCauses(field: string, address: string): StatusCause[] {
  if (!check.isIpAddress(address))
    return [invalidCause(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")];
  // Unlike in Kubernetes, loopback addresses are allowed: Pods on one machine have no others.
  if (address === "0.0.0.0" || address === "::") {
    return [invalidCause(field, address, "may not be unspecified (0.0.0.0 or ::)")];
  }
  return /^(?:169\.254\.|fe[89ab][0-9a-f]:)/i.test(address)
    ? [invalidCause(field, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    : [];
}

const maxEndpoints = 1000;
const maxAddresses = 100;
const maxHints = 8;

function* sliceCauses(object: Slice): Causes {
  const type = object.addressType ?? "";
  const endpoints = object.endpoints ?? [];
  yield* type === "" ? [requiredCause("addressType")] : check.oneOf("addressType", type, ["FQDN", "IPv4", "IPv6"]);
  yield* slicePortCauses(object.ports ?? []);
  if (endpoints.length > maxEndpoints) {
    yield tooManyCause("endpoints", endpoints.length, maxEndpoints);
    return;
  }
  yield* eachItem(endpoints, (endpoint, index) => endpointCauses(endpoint, type, `endpoints[${index}]`));
}

type Endpoint = NonNullable<Slice["endpoints"]>[number];

function* endpointCauses(endpoint: Endpoint, type: string, path: string): Causes {
  const addresses = endpoint.addresses ?? [];
  const field = `${path}.addresses`;
  yield* addresses.length === 0 ? [requiredCause(field, "must contain at least 1 address")] : [];
  if (addresses.length > maxAddresses) yield tooManyCause(field, addresses.length, maxAddresses);
  for (const [index, address] of addresses.entries()) {
    yield;
    if (typeof address !== "string") continue;
    if (type === "FQDN") yield* check.domainName(`${field}[${index}]`, address);
    else if (type === "IPv4" || type === "IPv6") {
      const faults = addressCauses(`${field}[${index}]`, address);
      // kube-apiserver omits the index here.
      if (check.isIpAddress(address) && address.includes(":") !== (type === "IPv6")) {
        yield invalidCause(field, address, `must be an ${type} address`);
      }
      yield* faults;
    }
  }
  const node = endpoint.nodeName;
  if (node !== undefined) {
    yield* dns1123SubdomainFaults(node).map((fault) => invalidCause(`${path}.nodeName`, node, fault));
  }
  const hints = hintCauses(endpoint, `${path}.hints`);
  const hostname = endpoint.hostname;
  if (hostname === undefined) {
    yield* hints;
    return;
  }
  const faults = dns1123LabelFaults(hostname).map((fault) => invalidCause(`${path}.hostname`, hostname, fault));
  yield* faults;
  yield* hints;
}

function* hintCauses(endpoint: Endpoint, path: string): Causes {
  const zones = listAt(endpoint, "hints", "forZones");
  const nodes = listAt(endpoint, "hints", "forNodes");
  if (zones.length > maxHints) {
    yield tooManyCause(`${path}.forZones`, zones.length, maxHints);
    return;
  }
  yield* hintNameCauses(zones, `${path}.forZones`, labelValueFaults);
  if (nodes.length > maxHints) {
    yield tooManyCause(`${path}.forNodes`, nodes.length, maxHints);
    return;
  }
  yield* hintNameCauses(nodes, `${path}.forNodes`, dns1123SubdomainFaults);
}

function* hintNameCauses(hints: readonly unknown[], path: string, faultsOf: (name: string) => readonly string[]): Causes {
  const names = new Set<string>();
  yield* eachItem(hints, (hint, index) => {
    const field = `${path}[${index}].name`;
    const name = textAt(hint, "name");
    const causes = names.has(name) ? [duplicateCause(field, name)] : [];
    names.add(name);
    return [...causes, ...faultsOf(name).map((fault) => invalidCause(field, name, fault))];
  });
}

function* slicePortCauses(ports: NonNullable<Slice["ports"]>): Causes {
  const names = new Set<string>();
  for (const [index, port] of ports.entries()) {
    yield;
    const path = `ports[${index}]`;
    const name = port.name ?? "";
    if (name !== "") yield* check.dnsLabel(`${path}.name`, name);
    if (names.has(name)) yield duplicateCause(`${path}.name`, name);
    names.add(name);
    yield* check.oneOf(`${path}.protocol`, port.protocol, protocols);
    yield* protocolNameCauses(`${path}.appProtocol`, valueAt(port, "appProtocol"));
  }
}

/** The first three, and the number of the others. */
function firstOf(texts: readonly string[], none: string): string {
  return shownTexts(texts, texts.length, none) || none;
}

const maxShown = 3;

/** The first of `count` texts, and the number of the others. */
function shownTexts(texts: readonly string[], count: number, none: string): string {
  if (count === 0) return none;
  const more = count - maxShown;
  return more > 0 ? `${texts.slice(0, maxShown).join(",")} + ${more} more...` : texts.join(",");
}

/** Every port of a subset with every address. Only the texts that are shown are created: there may be millions. */
function endpointsText(object: Endpoints): string {
  const texts: string[] = [];
  let count = 0;
  const subsets = object.subsets ?? [];
  for (const { addresses = [], ports = [] } of subsets) {
    count += addresses.length * Math.max(1, ports.length);
    const suffixes = ports.length === 0 ? [""] : ports.slice(0, maxShown).map(({ port }) => `:${String(port)}`);
    for (const suffix of suffixes) {
      for (const { ip = "" } of addresses.slice(0, maxShown - texts.length)) texts.push(ip + suffix);
    }
  }
  // Subsets without ready addresses are shown as nothing.
  return shownTexts(texts, count, subsets.length === 0 ? "<none>" : "");
}
