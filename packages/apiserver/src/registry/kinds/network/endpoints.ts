import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
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
import { listAt, objectsAt, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { protocols } from "../pod/container-validation.ts";

type Read = DeepReadonly<KubernetesObject>;

/** Endpoints and EndpointSlices: the addresses of the Pods behind Services. */
export function endpointKinds(): readonly ServedResource[] {
  return [endpoints, endpointSlices];
}

const endpoints = builtinResource({
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
      for (const subset of objectsAt(object, "subsets")) {
        for (const port of objectsAt(subset, "ports")) port["protocol"] ??= "TCP";
      }
    },
    validate: endpointsCauses,
  },
});

const endpointSlices = builtinResource({
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
    textAt(object, "addressType"),
    firstOf(
      listAt(object, "ports").map((port) => String(valueAt(port, "port") ?? "*")),
      "<unset>",
    ),
    firstOf(
      listAt(object, "endpoints").flatMap((endpoint) => listAt(endpoint, "addresses").map(String)),
      "<unset>",
    ),
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    default: (object) => {
      for (const port of objectsAt(object, "ports")) {
        port["name"] ??= "";
        port["protocol"] ??= "TCP";
      }
    },
    validate: sliceCauses,
    validateUpdate: (object, old) =>
      textAt(object, "addressType") === textAt(old, "addressType")
        ? []
        : [invalidCause("addressType", textAt(object, "addressType"), "field is immutable")],
  },
});

function endpointsCauses(object: Read): StatusCause[] {
  const causes: StatusCause[] = [];
  for (const [at, subset] of listAt(object, "subsets").entries()) {
    const path = `subsets[${at}]`;
    const ports = listAt(subset, "ports");
    for (const field of ["addresses", "notReadyAddresses"]) {
      for (const [index, address] of listAt(subset, field).entries()) {
        causes.push(...addressCauses(`${path}.${field}[${index}].ip`, textAt(address, "ip")));
      }
    }
    for (const [index, port] of ports.entries()) {
      const field = `${path}.ports[${index}]`;
      const name = textAt(port, "name");
      if (name === "" && ports.length > 1) causes.push(requiredCause(`${field}.name`));
      else if (name !== "") causes.push(...check.dnsLabel(`${field}.name`, name));
      causes.push(...check.portNumber(`${field}.port`, valueAt(port, "port")));
      causes.push(...check.oneOf(`${field}.protocol`, valueAt(port, "protocol"), protocols));
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

function sliceCauses(object: Read): StatusCause[] {
  const type = textAt(object, "addressType");
  const causes = type === "" ? [] : check.oneOf("addressType", type, ["FQDN", "IPv4", "IPv6"]);
  if (listAt(object, "endpoints").length > maxEndpoints) {
    causes.push(invalidCause("endpoints", listAt(object, "endpoints").length, `must have at most ${maxEndpoints} items`));
  }
  for (const [at, endpoint] of listAt(object, "endpoints").entries()) {
    const path = `endpoints[${at}]`;
    const addresses = listAt(endpoint, "addresses");
    if (Array.isArray(valueAt(endpoint, "addresses")) && addresses.length === 0) {
      causes.push(requiredCause(`${path}.addresses`, "must contain at least 1 address"));
    }
    for (const [index, address] of addresses.entries()) {
      if (typeof address !== "string") continue;
      const field = `${path}.addresses[${index}]`;
      if (type === "FQDN") causes.push(...check.dnsSubdomain(field, address));
      else causes.push(...addressCauses(field, address));
    }
    const hostname = textAt(endpoint, "hostname");
    if (hostname !== "")
      causes.push(...dns1123LabelFaults(hostname).map((fault) => invalidCause(`${path}.hostname`, hostname, fault)));
  }
  const names = new Set<string>();
  for (const [index, port] of listAt(object, "ports").entries()) {
    const name = textAt(port, "name");
    if (name !== "") causes.push(...check.dnsLabel(`ports[${index}].name`, name));
    if (names.has(name)) causes.push(forbiddenCause(`ports[${index}].name`, "names of ports must differ"));
    names.add(name);
    causes.push(...check.portNumber(`ports[${index}].port`, valueAt(port, "port")));
    causes.push(...check.oneOf(`ports[${index}].protocol`, valueAt(port, "protocol"), protocols));
  }
  return causes;
}

/** The first three, and the number of the others. */
function firstOf(texts: readonly string[], none: string): string {
  if (texts.length === 0) return none;
  const more = texts.length - 3;
  return more > 0 ? `${texts.slice(0, 3).join(",")} + ${more} more...` : texts.join(",");
}

function endpointsText(object: Read): string {
  const texts = listAt(object, "subsets").flatMap((subset) => {
    const addresses = listAt(subset, "addresses").map((address) => textAt(address, "ip"));
    const ports = listAt(subset, "ports");
    if (ports.length === 0) return addresses;
    return ports.flatMap((port) => addresses.map((address) => `${address}:${String(valueAt(port, "port"))}`));
  });
  return firstOf(texts, "<none>");
}
