import { type DeepReadonly, jsonEquals, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { dns1123SubdomainFaults, forbiddenCause, invalidCause } from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, objectAt, setField, textAt, valueAt } from "../../../object-fields.ts";
import { internalValue } from "../../../builtin/internal-value.ts";
import { type Causes, eachItem } from "../../../causes.ts";
import { valueDifference } from "../../../unified-diff.ts";

type Read = DeepReadonly<KubernetesObject>;

/** `podIP` is the first of `podIPs`. Sets a missing one from the other, in place; `podIP` wins if they differ. */
export function agreeOnAddresses(pod: KubernetesObject): void {
  const status = objectAt(pod, "status");
  if (status === undefined) return;
  const first = textAt(status, "podIPs", 0, "ip");
  const one = textAt(status, "podIP");
  if (one !== "" && one !== first) setField(status, "podIPs", [{ ip: one }]);
  else if (one === "" && first !== "") setField(status, "podIP", first);
}

/** Validates a new Pod status: addresses, the nominated node, and no revived containers. */
export function* podStatusCauses(pod: Read, old: Read): Causes {
  const status = valueAt(pod, "status");
  if (jsonEquals(status, valueAt(old, "status"))) return;

  const node = textAt(status, "nominatedNodeName");
  if (node !== textAt(old, "status", "nominatedNodeName") && node !== "") {
    yield* dns1123SubdomainFaults(node).map((fault) => invalidCause("status.nominatedNodeName", node, fault));
  }
  const policy = textAt(old, "spec", "restartPolicy");
  yield* transitionCauses(status, valueAt(old, "status"), "containerStatuses", policy);
  yield* transitionCauses(status, valueAt(old, "status"), "initContainerStatuses", policy);
  yield* addressCauses(listAt(status, "podIPs"), "status.podIPs");
}

/** A terminated container stays terminated unless it is restarted. Sidecars always are. */
function* transitionCauses(status: unknown, old: unknown, field: string, policy: string): Causes {
  if (policy === "Always") return;

  const indexes = firstIndexes(listAt(status, field));
  for (const before of listAt(old, field)) {
    yield;
    const code = valueAt(before, "state", "terminated", "exitCode");
    if (code === undefined || (policy === "OnFailure" && code !== 0)) continue;
    const index = indexes.get(textAt(before, "name"));
    if (index === undefined || valueAt(status, field, index, "state", "terminated") !== undefined) continue;
    yield forbiddenCause(`status.${field}[${index}].state`, "may not be transitioned to non-terminated state");
  }
}

function* addressCauses(addresses: readonly unknown[], field: string): Causes {
  const rule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
  const values = addresses.map((address) => textAt(address, "ip"));
  yield* eachItem(values, (ip, index) => (check.isIpAddress(ip) ? [] : [invalidCause(`${field}[${index}]`, ip, rule)]));
  const newer = values.filter((ip) => ip.includes(":")).length;
  if (values.length > 1 && (newer > 1 || values.length - newer > 1)) {
    yield invalidCause(field, values, "may specify no more than one IP for each IP family");
  }
}

/** The index of the first item with each name. */
function firstIndexes(items: readonly unknown[]): ReadonlyMap<string, number> {
  const indexes = new Map<string, number>();
  for (const [index, item] of items.entries()) {
    const name = textAt(item, "name");
    if (!indexes.has(name)) indexes.set(name, index);
  }
  return indexes;
}

/** A write through `ephemeralcontainers` must not remove or change existing ones. */
export function* ephemeralCauses(pod: Read, old: Read): Causes {
  const now = listAt(pod, "spec", "ephemeralContainers") as readonly JsonObject[];

  const indexes = firstIndexes(now);
  for (const before of listAt(old, "spec", "ephemeralContainers")) {
    yield;
    const name = textAt(before, "name");
    const found = now[indexes.get(name) ?? -1];
    if (found !== undefined && jsonEquals(found, before)) continue;
    const subject = `existing ephemeral containers ${JSON.stringify(name)} may not be`;
    if (found === undefined) yield forbiddenCause("spec.ephemeralContainers", `${subject} removed\n`);
    else {
      const [was, is] = [before, found].map((container) => internalValue("core.EphemeralContainer", container));
      yield forbiddenCause("spec.ephemeralContainers", `${subject} changed\n${valueDifference(was, is)}`);
    }
  }
}
