import type { NetworkPolicyObject, NetworkPolicyPeer, NetworkPolicyPort } from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { isStrictlyWithin, parseAddressBlock } from "../../address-blocks.ts";
import * as check from "../../field-checks.ts";
import type { Received, ReceivedObject } from "../../received.ts";
import { type Causes, eachItem } from "../../causes.ts";

type NetworkPolicy = ReceivedObject<NetworkPolicyObject>;

/** Validates a networking.k8s.io/v1 NetworkPolicy. */
export function* policyCauses(object: NetworkPolicy): Causes {
  const spec = object.spec;
  yield* check.labelSelector("spec.podSelector", spec?.podSelector);
  for (const [index, { from: peers, ports }] of (spec?.ingress ?? []).entries()) {
    yield;
    yield* ruleCauses({ peers, ports }, `spec.ingress[${index}]`, "from");
  }
  for (const [index, { to: peers, ports }] of (spec?.egress ?? []).entries()) {
    yield;
    yield* ruleCauses({ peers, ports }, `spec.egress[${index}]`, "to");
  }
  const types = spec?.policyTypes ?? [];
  if (types.length > 2) {
    yield invalidCause("spec.policyTypes", types, "may not specify more than two policyTypes");
    return;
  }
  for (const [index, type] of types.entries()) {
    yield;
    yield* check.oneOf(`spec.policyTypes[${index}]`, type, ["Ingress", "Egress"]);
  }
}

/** Validates one rule; `field` is where its peers are. */
function* ruleCauses(
  rule: Received<{ peers: NetworkPolicyPeer[] | undefined; ports: NetworkPolicyPort[] | undefined }>,
  path: string,
  field: "from" | "to",
): Causes {
  for (const [index, port] of (rule.ports ?? []).entries()) {
    yield;
    const at = `${path}.ports[${index}]`;
    yield* check.oneOf(`${at}.protocol`, port.protocol, ["TCP", "UDP", "SCTP"]);
    yield* policyPortCauses(port, at);
  }
  for (const [index, peer] of (rule.peers ?? []).entries()) {
    yield;
    yield* peerCauses(peer, `${path}.${field}[${index}]`);
  }
}

/** Validates the ports of a rule: a number, a name, or a range of numbers. */
function policyPortCauses({ port, endPort }: Received<NetworkPolicyPort>, path: string): StatusCause[] {
  const field = `${path}.endPort`;
  if (port === undefined) {
    return endPort === undefined ? [] : [invalidCause(field, endPort, "may not be specified when `port` is not specified")];
  }
  if (typeof port !== "number") {
    const detail = "may not be specified when `port` is non-numeric";
    return [
      ...(endPort === undefined ? [] : [invalidCause(field, endPort, detail)]),
      ...check.portReference(`${path}.port`, port),
    ];
  }
  const causes = check.portNumber(`${path}.port`, port);
  if (endPort === undefined) return causes;
  // kube-apiserver prints `port` here.
  if (endPort < port) causes.push(invalidCause(field, port, "must be greater than or equal to `port`"));
  return [...causes, ...check.portNumber(field, endPort)];
}

/** Validates an IPBlock: a block, and exceptions within it. */
function* blockCauses(block: NonNullable<Received<NetworkPolicyPeer>["ipBlock"]>, path: string): Causes {
  const text = block.cidr ?? "";
  if (text === "") {
    yield requiredCause(`${path}.cidr`);
    return;
  }
  const rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
  const outer = parseAddressBlock(text);
  if (outer === undefined) {
    yield invalidCause(`${path}.cidr`, text, rule);
    return;
  }
  yield* eachItem(block.except ?? [], (except, index) => {
    const field = `${path}.except[${index}]`;
    const inner = typeof except === "string" ? parseAddressBlock(except) : undefined;
    if (inner === undefined) return [invalidCause(field, except, rule)];
    return isStrictlyWithin(inner, outer) ? [] : [invalidCause(field, except, "must be a strict subset of `cidr`")];
  });
}

function* peerCauses(peer: Received<NetworkPolicyPeer>, path: string): Causes {
  const pods = peer.podSelector;
  const namespaces = peer.namespaceSelector;
  const block = peer.ipBlock;
  if (pods === undefined && namespaces === undefined && block === undefined) {
    yield requiredCause(path, "must specify a peer");
    return;
  }
  const isBlockAlone = block === undefined || (pods === undefined && namespaces === undefined);
  yield* check.labelSelector(`${path}.podSelector`, pods);
  yield* check.labelSelector(`${path}.namespaceSelector`, namespaces);
  yield* block === undefined ? [] : blockCauses(block, `${path}.ipBlock`);
  yield* isBlockAlone ? [] : [forbiddenCause(path, "may not specify both ipBlock and another peer")];
}
