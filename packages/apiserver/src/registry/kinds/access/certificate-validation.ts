import { X509Certificate } from "node:crypto";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import {
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
  tooLongCause,
} from "@keelson/api-machinery/validation";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { certificateRequestFault } from "../../certificate-request-fault.ts";
import { maxPemBytes, pemBlocks } from "../../pem-blocks.ts";
import { type Causes, eachItem } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

/** The conditions of a decision, which belong to the `approval` subresource. */
export const decisions: readonly string[] = ["Approved", "Denied"];

/** Conditions that are only ever true. */
const trueConditions: readonly string[] = [...decisions, "Failed"];

const usages = [
  "any",
  "cert sign",
  "client auth",
  "code signing",
  "content commitment",
  "crl sign",
  "data encipherment",
  "decipher only",
  "digital signature",
  "email protection",
  "encipher only",
  "ipsec end system",
  "ipsec tunnel",
  "ipsec user",
  "key agreement",
  "key encipherment",
  "microsoft sgc",
  "netscape sgc",
  "ocsp signing",
  "s/mime",
  "server auth",
  "signing",
  "timestamping",
];

const minExpirationSeconds = 600;

/** Validates the spec of a new request. */
export function* requestCauses(request: Read): Causes {
  const spec = valueAt(request, "spec");

  const fault = requestFault(textAt(spec, "request"));
  if (fault !== undefined) yield invalidCause("spec.request", textAt(spec, "request"), fault);
  yield* usageCauses(listAt(spec, "usages"));
  yield* signerCauses("spec.signerName", textAt(spec, "signerName"));
  const seconds = valueAt(spec, "expirationSeconds");
  if (typeof seconds === "number" && seconds < minExpirationSeconds) {
    const detail = "may not specify a duration less than 600 seconds (10 minutes)";
    yield invalidCause("spec.expirationSeconds", seconds, detail);
  }
}

function* usageCauses(requested: readonly unknown[]): Causes {
  if (requested.length === 0) {
    yield requiredCause("spec.usages");
    return;
  }
  const seen = new Set<unknown>();
  yield* eachItem(requested, (usage, index) =>
    usages.includes(String(usage)) ? [] : [notSupportedCause(`spec.usages[${index}]`, usage, usages)],
  );
  yield* eachItem(requested, (usage, index) => {
    if (seen.has(usage)) return [duplicateCause(`spec.usages[${index}]`, usage)];
    seen.add(usage);
    return [];
  });
}

const tooLarge = `must be at most ${maxPemBytes} bytes of PEM`;

/** Why the base64 of a PEM text does not begin with a signed PKCS #10 request. */
function requestFault(base64: string): string | undefined {
  const pem = Buffer.from(base64, "base64").toString("latin1");
  if (pem.length > maxPemBytes) return tooLarge;
  const [block] = pemBlocks(pem);
  if (block?.type !== "CERTIFICATE REQUEST") return "PEM block type must be CERTIFICATE REQUEST";
  return certificateRequestFault(Buffer.from(block.base64, "base64"));
}

const maxDomainLength = 253;
/** A domain, `/`, and a path of a label, `.` and a subdomain. */
const maxSignerLength = maxDomainLength + 1 + 63 + 1 + maxDomainLength;

function* signerCauses(field: string, name: string): Causes {
  if (name === "") {
    yield requiredCause(field);
    return;
  }
  if (name === "kubernetes.io/legacy-unknown") {
    yield invalidCause(field, name, "the legacy signerName is not allowed via this API version");
    return;
  }
  const [domain = "", path = "", ...rest] = name.split("/");
  if (!name.includes("/") || rest.length > 0) {
    yield invalidCause(field, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'");
    return;
  }
  yield* domain.length > maxDomainLength ? [tooLongCause(field, maxDomainLength)] : [];
  yield* firstFaults(field, domain, dns1123LabelFaults);
  if (!domain.includes(".")) {
    yield invalidCause(field, domain, "should be a domain with at least two segments separated by dots");
  }
  yield* firstFaults(field, path, dns1123SubdomainFaults);
  if (name.length > maxSignerLength) yield tooLongCause(field, maxSignerLength);
}

/** The faults of the first label of `text` that has any. */
function firstFaults(field: string, text: string, faultsOf: (label: string) => readonly string[]): StatusCause[] {
  for (const label of text.split(".")) {
    const faults = faultsOf(label);
    if (faults.length === 0) continue;
    return faults.map((fault) => invalidCause(field, text, `validating label ${JSON.stringify(label)}: ${fault}`));
  }
  return [];
}

/** Validates each condition, and all of them together. */
export function* conditionCauses(request: Read): Causes {
  const seen = new Set<string>();
  yield* eachItem(listAt(request, "status", "conditions"), (condition, index) => {
    const causes: StatusCause[] = [];
    const field = `status.conditions[${index}]`;
    const [type, status] = [textAt(condition, "type"), textAt(condition, "status")];
    const allowed = trueConditions.includes(type) ? ["True"] : ["False", "True", "Unknown"];
    if (type === "") causes.push(requiredCause(`${field}.type`));
    if (status === "") causes.push(requiredCause(`${field}.status`));
    else if (!allowed.includes(status)) causes.push(notSupportedCause(`${field}.status`, status, allowed));
    const opposite = decisions.find((decision) => decision !== type);
    if (decisions.includes(type) && opposite !== undefined && seen.has(opposite)) {
      causes.push(invalidCause("status.conditions", type, "Approved and Denied conditions are mutually exclusive"));
    }
    if (seen.has(type)) causes.push(duplicateCause(`${field}.type`, type));
    seen.add(type);
    return causes;
  });
}

/** Validates a write to `status`, which neither decides nor replaces a certificate. */
export function* statusCauses(request: Read, old: Read): Causes {
  const [certificate, before] = [textAt(request, "status", "certificate"), textAt(old, "status", "certificate")];
  const fault = certificate === before ? undefined : certificateFault(certificate);
  const [now, counted] = [conditionCounts(request), conditionCounts(old)];
  const added = decisions.filter((type) => (now.get(type) ?? 0) > (counted.get(type) ?? 0));
  yield* conditionCauses(request);
  if (fault !== undefined) yield invalidCause("status.certificate", "<certificate data>", fault);
  yield* removedConditionCauses(request, old);
  yield* added.map((type) => conditionForbidden("add", type));
  if (before !== "" && certificate !== before) {
    yield forbiddenCause("status.certificate", "updates may not modify existing certificate content");
  }
}

/** A decision or a failure stays. */
export function removedConditionCauses(request: Read, old: Read): StatusCause[] {
  const [now, before] = [conditionCounts(request), conditionCounts(old)];
  return trueConditions
    .filter((type) => (now.get(type) ?? 0) < (before.get(type) ?? 0))
    .map((type) => conditionForbidden("remove", type));
}

function conditionForbidden(verb: "add" | "remove", type: string): StatusCause {
  return forbiddenCause("status.conditions", `updates may not ${verb} a condition of type ${JSON.stringify(type)}`);
}

/** The number of conditions of each type. */
function conditionCounts(request: Read): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const condition of listAt(request, "status", "conditions")) {
    const type = textAt(condition, "type");
    counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  return counts;
}

/** Why the base64 of a text is not a list of PEM certificates. Empty is valid. */
function certificateFault(base64: string): string | undefined {
  const pem = Buffer.from(base64, "base64").toString("latin1");
  if (pem === "") return undefined;
  if (pem.length > maxPemBytes) return tooLarge;
  const blocks = pemBlocks(pem);
  if (blocks.length === 0) return "must contain at least one CERTIFICATE PEM block";
  for (const { type, hasHeaders, text } of blocks) {
    if (type !== "CERTIFICATE") return `only CERTIFICATE PEM blocks are allowed, found ${JSON.stringify(type)}`;
    if (hasHeaders) return "no PEM block headers are permitted";
    if (!isCertificate(text)) return "x509: malformed certificate";
  }
  return undefined;
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).serialNumber !== "";
  } catch {
    return false;
  }
}
