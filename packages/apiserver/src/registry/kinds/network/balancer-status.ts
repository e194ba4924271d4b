import type { ServiceObject } from "@keelson/api-machinery/kinds";
import {
  dns1123SubdomainFaults,
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import type { DraftObject } from "../../received.ts";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { type Causes, eachItem } from "../../causes.ts";

const path = "status.loadBalancer.ingress";

/** Sets the mode of the addresses in the status of a Service. */
export function defaultBalancerStatus({ spec, status }: DraftObject<ServiceObject>): void {
  if (spec?.type !== "LoadBalancer") return;
  for (const address of status?.loadBalancer?.ingress ?? []) if (address.ip) address.ipMode ??= "VIP";
}

/** The class of a Service that remains a LoadBalancer cannot be set, changed or removed later. */
export function classUpdateCauses(spec: unknown, old: unknown): StatusCause[] {
  const isBalanced = [spec, old].every((each) => textAt(each, "type") === "LoadBalancer");
  const [now, before] = [spec, old].map((each) => valueAt(each, "loadBalancerClass") ?? null);
  if (!isBalanced || now === before) return [];
  return [invalidCause("spec.loadBalancerClass", now, "may not change once set")];
}

/** Validates the addresses in the status of a Service, which only the type LoadBalancer has. */
export function* serviceBalancerCauses(service: unknown): Causes {
  const addresses = listAt(service, "status", "loadBalancer", "ingress");
  if (addresses.length > 0 && textAt(service, "spec", "type") !== "LoadBalancer") {
    yield forbiddenCause(path, "may only be used when `spec.type` is 'LoadBalancer'");
    return;
  }
  yield* eachItem(addresses, function* (address, index) {
    yield* addressCauses(address, `${path}[${index}]`);
    yield* modeCauses(address, `${path}[${index}].ipMode`);
  });
}

/** Validates the addresses in the status of an Ingress. */
export function* ingressBalancerCauses(ingress: unknown): Causes {
  yield* eachItem(listAt(ingress, "status", "loadBalancer", "ingress"), (address, index) =>
    addressCauses(address, `${path}[${index}]`),
  );
}

function addressCauses(address: unknown, at: string): StatusCause[] {
  const ip = textAt(address, "ip");
  const hostname = textAt(address, "hostname");
  const causes: StatusCause[] = [];
  if (ip !== "" && !check.isIpAddress(check.standardAddress(ip))) {
    causes.push(invalidCause(`${at}.ip`, ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
  }
  if (hostname === "") return causes;
  causes.push(...dns1123SubdomainFaults(hostname).map((fault) => invalidCause(`${at}.hostname`, hostname, fault)));
  if (check.isIpAddress(hostname)) {
    causes.push(invalidCause(`${at}.hostname`, hostname, "must be a DNS name, not an IP address"));
  }
  return causes;
}

function modeCauses(address: unknown, field: string): StatusCause[] {
  const mode = valueAt(address, "ipMode");
  if (mode === undefined) return [];
  if (textAt(address, "ip") === "") return [forbiddenCause(field, "may not be specified when `ip` is not set")];
  return mode === "VIP" || mode === "Proxy" ? [] : [notSupportedCause(field, mode, ["Proxy", "VIP"])];
}
