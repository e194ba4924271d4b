import { type DeepReadonly, jsonEquals, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { dns1123SubdomainFaults, forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, objectAt, setField, textAt, valueAt } from "../../object-fields.ts";

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
export function podStatusCauses(pod: Read, old: Read): StatusCause[] {
  const status = valueAt(pod, "status");
  if (jsonEquals(status, valueAt(old, "status"))) return [];
  const causes: StatusCause[] = [];
  const node = textAt(status, "nominatedNodeName");
  if (node !== textAt(old, "status", "nominatedNodeName") && node !== "") {
    causes.push(...dns1123SubdomainFaults(node).map((fault) => invalidCause("status.nominatedNodeName", node, fault)));
  }
  const policy = textAt(old, "spec", "restartPolicy");
  causes.push(
    ...transitionCauses(status, valueAt(old, "status"), "containerStatuses", policy),
    ...transitionCauses(status, valueAt(old, "status"), "initContainerStatuses", policy),
    ...addressCauses(listAt(status, "podIPs"), "status.podIPs"),
  );
  return causes;
}

/** A terminated container stays terminated unless it is restarted. Sidecars always are. */
function transitionCauses(status: unknown, old: unknown, field: string, policy: string): StatusCause[] {
  if (policy === "Always") return [];
  const causes: StatusCause[] = [];
  for (const before of listAt(old, field)) {
    const code = valueAt(before, "state", "terminated", "exitCode");
    if (code === undefined || (policy === "OnFailure" && code !== 0)) continue;
    const index = listAt(status, field).findIndex((now) => textAt(now, "name") === textAt(before, "name"));
    if (index < 0 || valueAt(status, field, index, "state", "terminated") !== undefined) continue;
    causes.push(forbiddenCause(`status.${field}[${index}].state`, "may not be transitioned to non-terminated state"));
  }
  return causes;
}

function addressCauses(addresses: readonly unknown[], field: string): StatusCause[] {
  const rule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
  const values = addresses.map((address) => textAt(address, "ip"));
  const causes = values.flatMap((ip, index) => (check.isIpAddress(ip) ? [] : [invalidCause(`${field}[${index}]`, ip, rule)]));
  const newer = values.filter((ip) => ip.includes(":")).length;
  if (values.length > 1 && (newer > 1 || values.length - newer > 1)) {
    causes.push(invalidCause(field, values, "may specify no more than one IP for each IP family"));
  }
  return causes;
}

/** A write through `ephemeralcontainers` must not remove or change existing ones. */
export function ephemeralCauses(pod: Read, old: Read): StatusCause[] {
  const now = listAt(pod, "spec", "ephemeralContainers") as readonly JsonObject[];
  const causes: StatusCause[] = [];
  for (const before of listAt(old, "spec", "ephemeralContainers")) {
    const name = textAt(before, "name");
    const found = now.find((container) => textAt(container, "name") === name);
    if (found !== undefined && jsonEquals(found, before)) continue;
    // kube-apiserver appends a difference of its internal types, which is empty for a removal.
    const change = found === undefined ? "removed\n" : "changed";
    const detail = `existing ephemeral containers ${JSON.stringify(name)} may not be ${change}`;
    causes.push(forbiddenCause("spec.ephemeralContainers", detail));
  }
  return causes;
}
