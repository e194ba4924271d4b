import type { ServiceObject } from "@keelson/api-machinery/kinds";
import {
  dns1123SubdomainFaults,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column, proxyVerbs } from "../../builtin/builtin-resource.ts";
import { serviceWarnings } from "./service-warnings.ts";
import { parseAddressBlock } from "../../address-blocks.ts";
import * as check from "../../field-checks.ts";
import type { DraftObject, ReceivedObject } from "../../received.ts";
import type { ServedResource, Strategy } from "../../served-resource.ts";
import { protocols } from "../pod/validation/container-validation.ts";
import { addressCauses, agreeOnAddresses, chooseFamilies, familyUpdateCauses } from "./service-families.ts";
import { allocate, allocationCauses, hasClusterAddress, isReachable, keepAllocated } from "./allocation.ts";
import { classUpdateCauses, defaultBalancerStatus, serviceBalancerCauses } from "./balancer-status.ts";
import type { ServiceAllocator } from "./service-allocator.ts";
import { type Causes, eachItem } from "../../causes.ts";

type Service = ReceivedObject<ServiceObject>;

type ServiceSpec = Service["spec"];

/** Services; `allocator` allocates their addresses and node ports. */
export function serviceKinds(allocator: ServiceAllocator): readonly ServedResource[] {
  return [
    builtinResource<ServiceObject>({
      group: "",
      version: "v1",
      kind: "Service",
      plural: "services",
      shortNames: ["svc"],
      categories: ["all"],
      scope: "Namespaced",
      hasStatus: true,
      columns: [
        column("Type", "ClusterIP, NodePort, LoadBalancer or ExternalName."),
        column("Cluster-IP", "The cluster IP; None for headless Services."),
        column("External-IP", "External addresses or names."),
        column("Port(s)", "Ports, with node ports after a colon."),
        ageColumn,
        column("Selector", "The selector of its Pods.", { wide: true }),
      ],
      cells: (service, now) => [
        service.spec?.type ?? "",
        service.spec?.clusterIP || "<none>",
        externalAddresses(service),
        portsText(service),
        age(service.metadata.creationTimestamp, now),
        labelsText(service.spec?.selector ?? {}),
      ],
      selectableFields: {
        "spec.clusterIP": (service) => service.spec?.clusterIP ?? "",
        "spec.type": (service) => service.spec?.type ?? "",
      },
      subresources: [{ name: "proxy", kind: "ServiceProxyOptions", verbs: proxyVerbs, isProxy: true }],
      strategy: serviceStrategy(allocator),
    }),
  ];
}

/** `a=1,b=2`, or `<none>`. */
export function labelsText(labels: Readonly<Record<string, unknown>>): string {
  const terms = Object.entries(labels).map(([key, value]) => `${key}=${String(value)}`);
  return terms.length === 0 ? "<none>" : terms.sort().join(",");
}

function defaultService(service: DraftObject<ServiceObject>): void {
  const spec = (service.spec ??= {});
  spec.sessionAffinity ??= "None";
  spec.type ??= "ClusterIP";
  if (spec.sessionAffinity === "ClientIP") {
    const config = (spec.sessionAffinityConfig ??= {});
    (config.clientIP ??= {}).timeoutSeconds ??= 10_800;
  } else if (spec.sessionAffinity === "None") delete spec.sessionAffinityConfig;
  for (const port of spec.ports ?? []) {
    port.protocol ??= "TCP";
    if (!port.targetPort && port.port !== undefined) port.targetPort = port.port;
  }
  if (isReachable(spec)) spec.externalTrafficPolicy ??= "Cluster";
  if (hasClusterAddress(spec)) spec.internalTrafficPolicy ??= "Cluster";
  if (spec.type === "LoadBalancer") spec.allocateLoadBalancerNodePorts ??= true;
}

function serviceStrategy(allocator: ServiceAllocator): Strategy<ServiceObject> {
  return {
    hasGeneration: false,
    default: defaultService,
    prepareForCreate: (service) => {
      service.status = { loadBalancer: {} };
      if (service.spec !== undefined) agreeOnAddresses(service.spec, undefined);
      allocate(service, undefined, allocator);
    },
    prepareForUpdate: (service, old) => {
      if (service.spec !== undefined) agreeOnAddresses(service.spec, old.spec);
      keepAllocated(service, old);
      allocate(service, old, allocator);
      const isStale = service.spec?.type !== "LoadBalancer" && service.status?.loadBalancer?.ingress !== undefined;
      if (isStale) service.status = { ...service.status, loadBalancer: {} };
    },
    validate: (service, old) =>
      inOrder(
        // As in kube-apiserver, addresses and families are decided before anything else.
        () => addressCauses(service.spec),
        () => unavailableFamilies(service.spec, old?.spec),
        () => allocationCauses(service, old?.spec, allocator),
        () => serviceCauses(service),
      ),
    validateUpdate: updateCauses,
    warnings: serviceWarnings,
    status: { default: defaultBalancerStatus, validate: serviceBalancerCauses },
  };
}

/** The causes of the first check that has any. */
function* inOrder(...checks: readonly (() => Causes)[]): Causes {
  for (const check of checks) {
    let isValid = true;
    for (const cause of check()) {
      if (cause !== undefined) isValid = false;
      yield cause;
    }
    if (!isValid) return;
  }
}

function unavailableFamilies(spec: ServiceSpec, old: ServiceSpec): readonly StatusCause[] {
  return spec === undefined ? [] : chooseFamilies({ ...spec }, old);
}

const types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

function* serviceCauses(service: Service): Causes {
  const spec = service.spec;
  const type = spec?.type ?? "";
  const isHeadless = (spec?.clusterIPs ?? [])[0] === "None";
  const ports = spec?.ports ?? [];
  if (ports.length === 0 && !isHeadless && type !== "ExternalName") yield requiredCause("spec.ports");
  if (isHeadless && (type === "NodePort" || type === "LoadBalancer")) {
    yield invalidCause("spec.clusterIPs[0]", "None", `may not be set to 'None' for ${type} services`);
  }
  if (type === "ExternalName") {
    const name = (spec?.externalName ?? "").replace(/\.$/, "");
    for (const field of ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] as const) {
      const detail = "may not be set for ExternalName services";
      const isSet = field === "ipFamilyPolicy" ? spec?.[field] !== undefined : (spec?.[field]?.length ?? 0) > 0;
      if (isSet) yield forbiddenCause(`spec.${field}`, detail);
    }
    if (name === "") yield requiredCause("spec.externalName");
    else yield* dns1123SubdomainFaults(name).map((fault) => invalidCause("spec.externalName", name, fault));
  }
  yield* portCauses(ports);
  yield* check.labels("spec.selector", spec?.selector);
  yield* check.oneOf("spec.sessionAffinity", spec?.sessionAffinity, ["ClientIP", "None"]);
  const timeout = spec?.sessionAffinityConfig?.clientIP?.timeoutSeconds;
  if (typeof timeout === "number" && (timeout <= 0 || timeout > 86_400)) {
    const detail = "must be greater than 0 and less than 86400";
    yield invalidCause("spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout, detail);
  }
  yield* eachItem(spec?.externalIPs ?? [], externalAddressCauses);
  yield* check.oneOf("spec.type", spec?.type, types);
  yield* balancerCauses(spec);
  yield* trafficCauses(spec);
  yield* distributionCauses(spec);
}

function externalAddressCauses(address: unknown, index: number): StatusCause[] {
  if (typeof address !== "string") return [];
  const standard = check.standardAddress(address);
  const malformed = ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"];
  const faults = check.isIpAddress(standard) ? check.specialAddressFaults(standard) : malformed;
  return faults.map((fault) => invalidCause(`spec.externalIPs[${index}]`, address, fault));
}

function trafficCauses(spec: ServiceSpec): StatusCause[] {
  const policies = ["Cluster", "Local"];
  const external = spec?.externalTrafficPolicy;
  const causes = check.oneOf("spec.internalTrafficPolicy", spec?.internalTrafficPolicy, policies);
  if (isReachable(spec)) causes.push(...check.oneOf("spec.externalTrafficPolicy", external, policies));
  else if (external !== undefined) {
    causes.push(invalidCause("spec.externalTrafficPolicy", external, "may only be set for externally-accessible services"));
  }
  const healthPort = spec?.healthCheckNodePort;
  if (typeof healthPort === "number" && healthPort !== 0 && (spec?.type !== "LoadBalancer" || external !== "Local")) {
    const detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
    causes.push(invalidCause("spec.healthCheckNodePort", healthPort, detail));
  }
  return causes;
}

const distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];

function distributionCauses(spec: ServiceSpec): StatusCause[] {
  return check.oneOf("spec.trafficDistribution", spec?.trafficDistribution, distributions);
}

/** Validates fields of LoadBalancer Services. */
function* balancerCauses(spec: ServiceSpec): Causes {
  const isBalanced = spec?.type === "LoadBalancer";
  const detail = "may only be used when `type` is 'LoadBalancer'";
  const ranges = spec?.loadBalancerSourceRanges ?? [];
  // Spelled as kube-apiserver does.
  const field = "spec.LoadBalancerSourceRanges";
  if (ranges.length > 0 && !isBalanced) yield forbiddenCause(field, detail);
  for (const [index, range] of ranges.entries()) {
    yield;
    if (typeof range === "string" && parseAddressBlock(range.trim()) !== undefined) continue;
    const rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    yield invalidCause(`${field}[${index}]`, range, rule);
  }
  if (spec?.allocateLoadBalancerNodePorts !== undefined && !isBalanced) {
    yield forbiddenCause("spec.allocateLoadBalancerNodePorts", detail);
  }
  const className = spec?.loadBalancerClass;
  if (typeof className !== "string") return;
  if (!isBalanced) yield forbiddenCause("spec.loadBalancerClass", detail);
  yield* qualifiedNameFaults(className).map((fault) => invalidCause("spec.loadBalancerClass", className, fault));
}

function* portCauses(ports: NonNullable<NonNullable<ServiceSpec>["ports"]>): Causes {
  const names = new Set<string>();
  const numbers = new Set<string>();
  const nodePorts = new Set<string>();
  for (const [index, port] of ports.entries()) {
    yield;
    const at = `spec.ports[${index}]`;
    const name = port.name ?? "";
    if (name === "") {
      if (ports.length > 1) yield requiredCause(`${at}.name`);
    } else {
      const faults = check.dnsLabel(`${at}.name`, name);
      yield* faults;
      if (faults.length === 0 && names.has(name)) yield duplicateCause(`${at}.name`, name);
      names.add(name);
    }
    yield* check.portNumber(`${at}.port`, port.port);
    yield* check.oneOf(`${at}.protocol`, port.protocol, protocols);
    yield* check.portReference(`${at}.targetPort`, port.targetPort);
    const protocol = port.appProtocol;
    if (typeof protocol === "string") {
      yield* qualifiedNameFaults(protocol).map((fault) => invalidCause(`${at}.appProtocol`, protocol, fault));
    }
    const key = `${port.protocol ?? ""}/${String(port.port)}`;
    if (numbers.has(key)) {
      // kube-apiserver prints its internal type, with these fields alone.
      const shown = { Name: "", Protocol: port.protocol ?? "", AppProtocol: null, Port: port.port, TargetPort: 0, NodePort: 0 };
      yield duplicateCause(at, shown);
    }
    numbers.add(key);
    const nodePort = port.nodePort;
    if (typeof nodePort !== "number" || nodePort === 0) continue;
    const nodeKey = `${port.protocol ?? ""}/${nodePort}`;
    if (nodePorts.has(nodeKey)) yield duplicateCause(`${at}.nodePort`, nodePort);
    nodePorts.add(nodeKey);
  }
}

const updateCauses = ({ spec }: Service, old: Service): readonly StatusCause[] => [
  ...familyUpdateCauses(spec, old.spec),
  ...classUpdateCauses(spec, old.spec),
];

function externalAddresses(service: Service): string {
  const spec = service.spec;
  const external = (spec?.externalIPs ?? []).map(String);
  switch (spec?.type) {
    case "ExternalName":
      return spec?.externalName ?? "";
    case "LoadBalancer": {
      const balanced = (service.status?.loadBalancer?.ingress ?? []).map((one) => one.ip || one.hostname);
      const all = [...balanced, ...external];
      return all.length === 0 ? "<pending>" : all.join(",");
    }
    default:
      return external.length === 0 ? "<none>" : external.join(",");
  }
}

function portsText(service: Service): string {
  const texts = (service.spec?.ports ?? []).map((port) => {
    const node = port.nodePort;
    const number = String(port.port);
    return `${number}${typeof node === "number" && node > 0 ? `:${node}` : ""}/${port.protocol ?? ""}`;
  });
  return texts.length === 0 ? "<none>" : texts.join(",");
}
