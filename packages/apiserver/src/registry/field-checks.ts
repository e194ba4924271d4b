import { isJsonObject } from "@keelson/api-machinery";
import {
  causesOfItems,
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  labelValueFaults,
  notSupportedCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
  tooLongCause,
} from "@keelson/api-machinery/validation";
import { listAt, mapAt, textAt, valueAt } from "./object-fields.ts";
import { type Causes, eachItem } from "./causes.ts";

/*
 * Checks of single fields with kube-apiserver's messages. `field` is the path in the cause. Schema validation reports missing
 * required fields, so these checks skip absent values.
 */

/** A number must be at least `least`. */
export function atLeast(field: string, value: unknown, least = 0): StatusCause[] {
  if (typeof value !== "number" || value >= least) return [];
  const detail = least === 1 ? "must be greater than 0" : `must be greater than or equal to ${least}`;
  return [invalidCause(field, value, detail)];
}

/** A user or group ID. */
export function accountId(field: string, value: unknown): StatusCause[] {
  if (typeof value !== "number" || (value >= 0 && value <= 2 ** 31 - 1)) return [];
  return [invalidCause(field, value, "must be between 0 and 2147483647, inclusive")];
}

/** A port number. */
export function portNumber(field: string, value: unknown): StatusCause[] {
  if (typeof value !== "number" || (value >= 1 && value <= 65535)) return [];
  return [invalidCause(field, value, "must be between 1 and 65535, inclusive")];
}

/** Why a text is not a valid port name (an IANA service name). */
export function portNameFaults(value: string): string[] {
  const faults: string[] = [];
  if (value.length > 15) faults.push("must be no more than 15 characters");
  if (!/^[-a-z0-9]+$/.test(value)) faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  if (!/[a-z]/.test(value)) faults.push("must contain at least one letter (a-z)");
  if (value.includes("--")) faults.push("must not contain consecutive hyphens");
  if (value.startsWith("-") || value.endsWith("-")) faults.push("must not begin or end with a hyphen");
  return faults;
}

/** A port by number or name. */
export function portReference(field: string, value: unknown): StatusCause[] {
  if (typeof value !== "string") return portNumber(field, value);
  return portNameFaults(value).map((fault) => invalidCause(field, value, fault));
}

/** One of `supported`. */
export function oneOf(field: string, value: unknown, supported: readonly string[]): StatusCause[] {
  if (value === undefined || (typeof value === "string" && supported.includes(value))) return [];
  return [notSupportedCause(field, value, supported)];
}

/** A required, non-empty text. */
export function nonEmpty(field: string, value: unknown, detail = ""): StatusCause[] {
  return value === undefined || value === "" ? [requiredCause(field, detail)] : [];
}

/** A non-empty DNS-1123 label. */
export function dnsLabel(field: string, value: unknown): StatusCause[] {
  if (typeof value !== "string") return [];
  if (value === "") return [requiredCause(field)];
  return dns1123LabelFaults(value).map((fault) => invalidCause(field, value, fault));
}

/** A DNS-1123 subdomain; empty is allowed. */
export function dnsSubdomain(field: string, value: unknown): StatusCause[] {
  if (typeof value !== "string" || value === "") return [];
  return dns1123SubdomainFaults(value).map((fault) => invalidCause(field, value, fault));
}

/** The name of a CSI driver. */
export function driverName(field: string, name: string): StatusCause[] {
  if (name === "") return [requiredCause(field)];
  const causes = name.length > 63 ? [tooLongCause(field, 63)] : [];
  return [...causes, ...dns1123SubdomainFaults(name.toLowerCase()).map((fault) => invalidCause(field, name, fault))];
}

/** A path after a domain, such as `acme.io/foo`. */
export function domainPrefixedPath(field: string, value: string): StatusCause[] {
  if (value === "") return [requiredCause(field)];
  const slash = value.indexOf("/");
  if (slash <= 0 || slash === value.length - 1) {
    return [invalidCause(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')];
  }
  const host = value.slice(0, slash);
  const path = value.slice(slash + 1);
  const causes = dns1123SubdomainFaults(host).map((fault) => invalidCause(field, host, fault));
  if (/^[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$/.test(path)) return causes;
  const rule = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
  return [...causes, invalidCause(field, path, `Invalid path (regex used for validation is '${rule}')`)];
}

/** A DNS name of at least two labels, which may end with a dot. */
export function domainName(field: string, value: string): StatusCause[] {
  if (value === "") return [requiredCause(field)];
  const name = value.replace(/\.$/, "");
  const faults = dns1123SubdomainFaults(name);
  if (faults.length > 0) return [invalidCause(field, name, faults.join(","))];
  const labels = name.split(".");
  if (labels.length < 2) {
    return [invalidCause(field, name, "should be a domain with at least two segments separated by dots")];
  }
  return labels.flatMap((label) => {
    const problems = dns1123LabelFaults(label);
    return problems.length === 0 ? [] : [invalidCause(field, label, problems.join(","))];
  });
}

/** Keys and values of labels. */
export function* labels(field: string, value: unknown): Causes {
  if (!isJsonObject(value)) return;
  yield* eachItem(Object.entries(value), ([key, label]) => [
    ...labelKeyFaults(key).map((fault) => invalidCause(field, key, fault)),
    ...(typeof label === "string" ? labelValueFaults(label).map((fault) => invalidCause(field, label, fault)) : []),
  ]);
}

/** Keys of annotations. */
export function* annotations(field: string, value: unknown): Causes {
  if (!isJsonObject(value)) return;
  yield* eachItem(Object.keys(value), (key) =>
    qualifiedNameFaults(key.toLowerCase()).map((fault) => invalidCause(field, key, fault)),
  );
}

/** A LabelSelector. */
export function* labelSelector(field: string, selector: unknown): Causes {
  if (!isJsonObject(selector)) return;
  yield* labels(`${field}.matchLabels`, valueAt(selector, "matchLabels"));
  yield* eachItem(listAt(selector, "matchExpressions"), (expression, index) =>
    labelRequirement(`${field}.matchExpressions[${index}]`, expression),
  );
}

/** A LabelSelector as Go prints it: in the order of its fields, with sorted labels. */
export function shownSelector(selector: unknown): object {
  const labels = mapAt(selector, "matchLabels");
  const names = Object.keys(labels).sort();
  const expressions = listAt(selector, "matchExpressions").map((expression) => ({
    key: textAt(expression, "key"),
    operator: textAt(expression, "operator"),
    ...(listAt(expression, "values").length === 0 ? {} : { values: listAt(expression, "values") }),
  }));
  return {
    ...(names.length === 0 ? {} : { matchLabels: Object.fromEntries(names.map((name) => [name, labels[name]])) }),
    ...(expressions.length === 0 ? {} : { matchExpressions: expressions }),
  };
}

/**
 * Validates one label requirement. `isNumeric` allows numeric comparison, as for node labels; `checksValues` (default true) rejects values
 * that are not label values.
 */
export function* labelRequirement(
  path: string,
  expression: unknown,
  { isNumeric = false, checksValues = true }: { readonly isNumeric?: boolean; readonly checksValues?: boolean } = {},
): Causes {
  const operator = textAt(expression, "operator");
  const values = listAt(expression, "values");
  if (operator === "In" || operator === "NotIn") {
    if (values.length === 0) {
      yield requiredCause(`${path}.values`, "must be specified when `operator` is 'In' or 'NotIn'");
    }
  } else if (operator === "Exists" || operator === "DoesNotExist") {
    if (values.length > 0) {
      yield forbiddenCause(`${path}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    }
  } else if (isNumeric && (operator === "Gt" || operator === "Lt")) {
    if (values.length !== 1) {
      yield requiredCause(`${path}.values`, "must be specified single value when `operator` is 'Lt' or 'Gt'");
    }
  } else yield invalidCause(`${path}.operator`, operator, "not a valid selector operator");
  const key = textAt(expression, "key");
  yield* labelKeyFaults(key).map((fault) => invalidCause(`${path}.key`, key, fault));
  if (!checksValues) return;
  const ofValues = causesOfItems(values, (value, index) =>
    typeof value === "string"
      ? labelValueFaults(value).map((fault) => invalidCause(`${path}.values[${index}]`, value, fault))
      : [],
  );
  yield* ofValues;
}

/** Whether a LabelSelector has no terms and so selects everything. */
export function isEmptySelector(selector: unknown): boolean {
  return Object.keys(mapAt(selector, "matchLabels")).length === 0 && listAt(selector, "matchExpressions").length === 0;
}

/** A non-negative number or percentage. */
export function countOrPercent(field: string, value: unknown): StatusCause[] {
  if (typeof value !== "string") return atLeast(field, value);
  if (/^[0-9]+%$/.test(value)) return [];
  const rule =
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
  return [invalidCause(field, value, rule)];
}

/** The number of a percentage; undefined if the value is not one. */
export function percentOf(value: unknown): number | undefined {
  return typeof value === "string" && /^[0-9]+%$/.test(value) ? Number(value.slice(0, -1)) : undefined;
}

/** An IP address without the leading zeros that kube-apiserver still accepts in IPv4 addresses. */
export function standardAddress(address: string): string {
  return /^\d+(\.\d+){3}$/.test(address) ? address.split(".").map(Number).join(".") : address;
}

/** An IPv4 or IPv6 address. */
export function isIpAddress(value: string): boolean {
  if (/^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.|$)){4}$/.test(value) && !value.endsWith(".")) return true;
  return isIpv6(value);
}

/** An IPv6 address without a zone. */
function isIpv6(value: string): boolean {
  if (!value.includes(":") || !/^[0-9a-fA-F:.]+$/.test(value)) return false;
  try {
    return new URL(`http://[${value}]/`).hostname !== "";
  } catch {
    return false;
  }
}

/** Why an address cannot be used on the network: it is unspecified, loopback or link-local. */
export function specialAddressFaults(address: string): string[] {
  const faults: string[] = [];
  if (address === "0.0.0.0" || address === "::") faults.push(`may not be unspecified (${address})`);
  if (address.startsWith("127.") || address === "::1") faults.push("may not be in the loopback range (127.0.0.0/8, ::1/128)");
  if (address.startsWith("169.254.") || /^fe[89ab]/i.test(address)) {
    faults.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
  }
  if (address.startsWith("224.0.0.") || /^ff02:/i.test(address)) {
    faults.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
  }
  return faults;
}
