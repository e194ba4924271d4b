import type { EndpointSliceObject, EndpointsObject } from "@keelson/api-machinery/kinds";
import {
  dns1123LabelFaults,
  forbiddenCause,
  invalidCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
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
    default: (object) => {
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
    for (const field of ["addresses", "notReadyAddresses"] as const) {
      for (const [index, address] of (subset[field] ?? []).entries()) {
        causes.push(...addressCauses(`${path}.${field}[${index}].ip`, address.ip ?? ""));
      }
    }
    for (const [index, port] of ports.entries()) {
      const field = `${path}.ports[${index}]`;
      const name = port.name ?? "";
      if (name === "" && ports.length > 1) causes.push(requiredCause(`${field}.name`));
      else if (name !== "") causes.push(...check.dnsLabel(`${field}.name`, name));
      causes.push(...check.portNumber(`${field}.port`, port.port));
      causes.push(...check.oneOf(`${field}.protocol`, port.protocol, protocols));
    }
  }
  return causes;
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

function sliceCauses(object: Slice): StatusCause[] {
  const type = object.addressType ?? "";
  const causes = type === "" ? [] : check.oneOf("addressType", type, ["FQDN", "IPv4", "IPv6"]);
  if ((object.endpoints ?? []).length > maxEndpoints) {
    causes.push(invalidCause("endpoints", (object.endpoints ?? []).length, `must have at most ${maxEndpoints} items`));
  }
  for (const [at, endpoint] of (object.endpoints ?? []).entries()) {
    const path = `endpoints[${at}]`;
    const addresses = endpoint.addresses ?? [];
    if (Array.isArray(endpoint.addresses) && addresses.length === 0) {
      causes.push(requiredCause(`${path}.addresses`, "must contain at least 1 address"));
    }
    for (const [index, address] of addresses.entries()) {
      if (typeof address !== "string") continue;
      const field = `${path}.addresses[${index}]`;
      if (type === "FQDN") causes.push(...check.dnsSubdomain(field, address));
      else causes.push(...addressCauses(field, address));
    }
    const hostname = endpoint.hostname ?? "";
    if (hostname !== "")
      causes.push(...dns1123LabelFaults(hostname).map((fault) => invalidCause(`${path}.hostname`, hostname, fault)));
  }
  const names = new Set<string>();
  for (const [index, port] of (object.ports ?? []).entries()) {
    const name = port.name ?? "";
    if (name !== "") causes.push(...check.dnsLabel(`ports[${index}].name`, name));
    if (names.has(name)) causes.push(forbiddenCause(`ports[${index}].name`, "names of ports must differ"));
    names.add(name);
    causes.push(...check.portNumber(`ports[${index}].port`, port.port));
    causes.push(...check.oneOf(`ports[${index}].protocol`, port.protocol, protocols));
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
