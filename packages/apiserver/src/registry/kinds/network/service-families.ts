import { jsonEquals } from "@keelson/api-machinery";
import type { ServiceObject } from "@keelson/api-machinery/kinds";
import { duplicateCause, invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { createRepeatCheck, type Causes } from "../../causes.ts";
import * as check from "../../field-checks.ts";
import type { DraftObject, ReceivedObject } from "../../received.ts";

type Spec = ReceivedObject<ServiceObject>["spec"];
type DraftSpec = NonNullable<DraftObject<ServiceObject>["spec"]>;
/** What decides about the families of a Service. */
type Addressed = {
  -readonly [Name in
    | "type"
    | "selector"
    | "clusterIP"
    | "clusterIPs"
    | "ipFamilies"
    | "ipFamilyPolicy"]?: NonNullable<Spec>[Name];
};

const policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const families = ["IPv4", "IPv6"];
/** The only family of cluster IPs, and what headless Services without a selector may have alongside it. */
const configuredFamily = "IPv4";
const policyField = "spec.ipFamilyPolicy";

const isHeadless = (spec: Spec): boolean => spec?.clusterIPs?.[0] === "None";
const familyOf = (address: string): string => (address.includes(":") ? "IPv6" : "IPv4");

/** Brings `clusterIP` and `clusterIPs` together: clients may name the first one alone. `old` is the spec that an update replaces. */
export function agreeOnAddresses(spec: DraftSpec, old: Spec): void {
  const [before, now] = [old?.clusterIP ?? "", spec.clusterIP ?? ""];
  const [listBefore, listNow] = [old?.clusterIPs ?? [], spec.clusterIPs ?? []];
  if (old === undefined) {
    if (now !== "" && listNow.length === 0) spec.clusterIPs = [now];
    return;
  }
  if (listBefore.length > 0 && listNow.length === 0 && before === now) spec.clusterIPs = [...listBefore];
  if (before === now || !jsonEquals(listBefore, listNow)) return;
  if (now === "") delete spec.clusterIPs;
  else spec.clusterIPs = [now];
}

/** Validates `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` against each other. */
export function* addressCauses(spec: Spec): Causes {
  if (spec === undefined || spec.type === "ExternalName") return;
  const { clusterIP = "", clusterIPs = [], ipFamilies = [] } = spec;
  const field = "spec.clusterIPs";
  if (clusterIP !== "") {
    if (clusterIPs.length === 0) yield requiredCause(field);
    else if (clusterIPs[0] !== clusterIP) yield invalidCause(field, clusterIPs, "first value must match `clusterIP`");
  } else if (clusterIPs.length > 0) yield invalidCause(field, clusterIPs, "must be empty when `clusterIP` is not specified");
  const isRepeated = createRepeatCheck();
  for (const [index, family] of ipFamilies.entries()) {
    yield;
    yield* check.oneOf(`spec.ipFamilies[${index}]`, family, families);
    if (isRepeated(family)) yield duplicateCause(`spec.ipFamilies[${index}]`, family);
  }
  yield* check.oneOf(policyField, spec.ipFamilyPolicy, policies);
  let areAddresses = true;
  for (const [index, address] of clusterIPs.entries()) {
    yield;
    const faults = addressFaults(address, index, clusterIPs);
    if (faults.length > 0) areAddresses = false;
    yield* faults;
  }
  if (clusterIPs.length > 2) yield invalidCause(field, clusterIPs, "may only hold up to 2 values");
  if (!areAddresses) return;
  if (clusterIPs.length > 1) {
    if (new Set(clusterIPs.map(familyOf)).size < 2) {
      yield invalidCause(field, clusterIPs, "may specify no more than one IP for each IP family");
    }
  }
  if (isHeadless(spec)) return;
  for (const [index, family] of ipFamilies.entries()) {
    const address = clusterIPs[index];
    if (address === undefined || familyOf(address) === family || !families.includes(family)) continue;
    yield invalidCause(`${field}[${index}]`, address, `expected an ${family} value as indicated by \`ipFamilies[${index}]\``);
  }
}

function addressFaults(address: unknown, index: number, all: readonly unknown[]): readonly StatusCause[] {
  if (index === 0 && address === "None") {
    if (all.length === 1) return [];
    return [invalidCause("spec.clusterIPs", all, "'None' must be the first and only value")];
  }
  if (typeof address !== "string" || check.isIpAddress(address)) return [];
  const rule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
  return [invalidCause(`spec.clusterIPs[${index}]`, address, rule)];
}

/**
 * Chooses the policy and the families of a valid Service, in place. Returns why the cluster, which has addresses of one family, cannot
 * provide what was requested. Repeating it changes nothing.
 */
export function chooseFamilies(spec: Addressed, old: Spec): readonly StatusCause[] {
  if (spec.type === "ExternalName") return [];
  const isOpen = spec.clusterIP === "None" && Object.keys(spec.selector ?? {}).length === 0;
  const policy = (spec.ipFamilyPolicy ??= old?.ipFamilyPolicy ?? (isOpen ? "RequireDualStack" : "SingleStack"));
  const causes = [...changeCauses(spec, old), ...inferFamilies(spec)];
  if (causes.length > 0) return causes;
  const chosen = spec.ipFamilies ?? [];
  if (isOpen) {
    const [first = configuredFamily, second] = chosen;
    const other = first === "IPv4" ? "IPv6" : "IPv4";
    spec.ipFamilies = second !== undefined || policy === "SingleStack" ? [first, ...chosen.slice(1)] : [first, other];
    return [];
  }
  const unavailable = [
    ...(policy === "RequireDualStack"
      ? [invalidCause(policyField, policy, "this cluster is not configured for dual-stack services")]
      : []),
    ...chosen.flatMap((family, index) =>
      family === configuredFamily ? [] : [invalidCause(`spec.ipFamilies[${index}]`, family, "not configured on this cluster")],
    ),
  ];
  if (unavailable.length === 0 && chosen.length === 0) spec.ipFamilies = [configuredFamily];
  return unavailable;
}

/** What an update may do to the second address and family, which only `SingleStack` releases. */
function changeCauses(spec: Addressed, old: Spec): readonly StatusCause[] {
  const policy = spec.ipFamilyPolicy;
  const causes: StatusCause[] = [];
  for (const [field, ofOne, ofMany] of [
    ["clusterIPs", "cluster IP", "cluster IPs"],
    ["ipFamilies", "IP family", "IP families"],
  ] as const) {
    const [before, now] = [old?.[field] ?? [], spec[field] ?? []];
    if (policy === "SingleStack") {
      if (old !== undefined && now.length > 1 && jsonEquals(before, now)) spec[field] = now.slice(0, 1);
      else if (now.length === 2) {
        const rule = `must be 'RequireDualStack' or 'PreferDualStack' when multiple ${ofMany} are specified`;
        causes.push(invalidCause(policyField, policy, rule));
      }
    } else if (now.length > 0 && now.length < before.length) {
      causes.push(invalidCause(policyField, policy, `must be 'SingleStack' to release the secondary ${ofOne}`));
    }
  }
  return causes;
}

/** Adds the families of addresses that were requested without one. */
function inferFamilies(spec: Addressed): readonly StatusCause[] {
  const causes: StatusCause[] = [];
  for (const [index, address] of (spec.clusterIPs ?? []).entries()) {
    if (address === "None") break;
    if (index < (spec.ipFamilies ?? []).length) continue;
    const family = familyOf(address);
    if (family === configuredFamily) spec.ipFamilies = [...(spec.ipFamilies ?? []), family];
    else causes.push(invalidCause(`spec.clusterIPs[${index}]`, spec.clusterIPs, `${family} is not configured on this cluster`));
  }
  return causes;
}

/** Addresses and families of a Service that had them may be added or released, but not changed. */
export function familyUpdateCauses(spec: Spec, old: Spec): readonly StatusCause[] {
  if (spec?.type === "ExternalName" || old?.type === "ExternalName") return [];
  const causes: StatusCause[] = [];
  const [wasHeadless, becomesHeadless] = [isHeadless(old), isHeadless(spec)];
  if (!wasHeadless || !becomesHeadless) causes.push(...listCauses(spec, old, "clusterIPs", "clusterIP"));
  if (!wasHeadless && !becomesHeadless) causes.push(...listCauses(spec, old, "ipFamilies", "ipFamily"));
  return causes;
}

function listCauses(spec: Spec, old: Spec, field: "clusterIPs" | "ipFamilies", one: string): readonly StatusCause[] {
  const [before, now] = [old?.[field] ?? [], spec?.[field] ?? []];
  const at = (index: number): string => `spec.${field}[${index}]`;
  const changed = (index: number): StatusCause => invalidCause(at(index), now, "may not change once set");
  if (before.length === now.length) return before.flatMap((value, index) => (value === now[index] ? [] : [changed(index)]));
  if (now.length === 0) return [invalidCause(at(0), null, `primary ${one} can not be unset`)];
  const causes = before.length > 0 && before[0] !== now[0] ? [changed(0)] : [];
  if (before.length > now.length && now.length === 1 && spec?.ipFamilyPolicy !== "SingleStack") {
    const rule = `must be set to 'SingleStack' when releasing the secondary ${one}`;
    causes.push(invalidCause(policyField, spec?.ipFamilyPolicy ?? null, rule));
  }
  return causes;
}
