import { type DeepReadonly, isJsonObject, type JsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import {
  dns1123SubdomainFaults,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { formatTime } from "@keelson/api-machinery/time";
import { age, humanDuration } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { ensureMap, keepField, listAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource, UserInfo } from "../../served-resource.ts";

type Read = DeepReadonly<KubernetesObject>;

/** certificates.k8s.io/v1 CertificateSigningRequests. `now` is in milliseconds. */
export function certificateKinds(now: () => number): readonly ServedResource[] {
  return [
    builtinResource({
      group: "certificates.k8s.io",
      version: "v1",
      kind: "CertificateSigningRequest",
      plural: "certificatesigningrequests",
      shortNames: ["csr"],
      scope: "Cluster",
      hasStatus: true,
      columns: [
        ageColumn,
        column("SignerName", "The signer that is requested to sign."),
        column("Requestor", "The user who created the request."),
        column("RequestedDuration", "The requested validity of the certificate."),
        column("Condition", "Pending, Approved or Denied, and whether it failed or was issued."),
      ],
      cells,
      selectableFields: { "spec.signerName": (request) => textAt(request, "spec", "signerName") },
      subresources: [
        {
          name: "approval",
          kind: "CertificateSigningRequest",
          verbs: ["get", "patch", "update"],
          changesStatus: true,
          prepareForUpdate: (request, old) => {
            keepField(request, old, "spec");
            const certificate = valueAt(old, "status", "certificate");
            if (certificate !== undefined) setField(ensureMap(request, "status"), "certificate", certificate);
            stampConditions(request, old, now());
          },
          validateUpdate: decisionCauses,
        },
      ],
      strategy: {
        hasGeneration: false,
        prepareForCreate: recordRequestor,
        prepareForUpdate: (request, old) => keepField(request, old, "spec"),
        validate: (request) => conditionCauses(request),
        validateCreate: requestCauses,
        status: {
          validate: (request, old) => [
            ...certificateCauses(request, old),
            ...conditionCauses(request),
            ...(old === undefined ? [] : keptDecisionCauses(request, old)),
          ],
          prepareForUpdate: (request, old) => {
            keepDecisions(request, old);
            stampConditions(request, old, now());
          },
        },
      },
    }),
  ];
}

function cells(request: Read, now: number): readonly string[] {
  const seconds = valueAt(request, "spec", "expirationSeconds");
  return [
    age(request.metadata.creationTimestamp, now),
    textAt(request, "spec", "signerName"),
    textAt(request, "spec", "username"),
    typeof seconds === "number" ? humanDuration(seconds * 1000) : "<none>",
    stateOf(request),
  ];
}

function stateOf(request: Read): string {
  const has = (type: string): boolean => listAt(request, "status", "conditions").some((each) => textAt(each, "type") === type);
  const decision = has("Denied") ? "Denied" : has("Approved") ? "Approved" : "Pending";
  const failed = has("Failed") ? ",Failed" : "";
  const issued = textAt(request, "status", "certificate") === "" ? "" : ",Issued";
  return `${decision}${failed}${issued}`;
}

/** The requestor is who is authenticated, whatever the request says. */
function recordRequestor(request: KubernetesObject, user?: UserInfo): void {
  const spec = ensureMap(request, "spec");
  setField(spec, "username", user?.username);
  setField(spec, "uid", user?.uid);
  setField(spec, "groups", user === undefined ? undefined : [...user.groups]);
  setField(spec, "extra", user?.extra === undefined ? undefined : structuredClone(user.extra));
  setField(request, "status", {});
}

const decisions = ["Approved", "Denied"];

function stampConditions(request: KubernetesObject, old: Read, now: number): void {
  const time = formatTime(now);
  for (const condition of objectsAt(request, "status", "conditions")) {
    const before = listAt(old, "status", "conditions").find(
      (each) => textAt(each, "type") === textAt(condition, "type") && textAt(each, "status") === textAt(condition, "status"),
    );
    condition["lastUpdateTime"] ??= time;
    condition["lastTransitionTime"] ??= textAt(before, "lastTransitionTime") || time;
  }
}

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

function requestCauses(request: Read): StatusCause[] {
  const spec = valueAt(request, "spec");
  const causes: StatusCause[] = [];
  const fault = requestFault(textAt(spec, "request"));
  if (fault !== undefined) causes.push(invalidCause("spec.request", textAt(spec, "request"), fault));
  const requested = listAt(spec, "usages");
  if (requested.length === 0) causes.push(requiredCause("spec.usages"));
  for (const [index, usage] of requested.entries()) {
    const field = `spec.usages[${index}]`;
    if (!usages.includes(String(usage))) causes.push(notSupportedCause(field, usage, usages));
    if (requested.indexOf(usage) < index) causes.push(duplicateCause(field, usage));
  }
  causes.push(...signerCauses("spec.signerName", textAt(spec, "signerName")));
  const seconds = valueAt(spec, "expirationSeconds");
  if (typeof seconds === "number" && seconds < minExpirationSeconds) {
    const detail = "may not specify a duration less than 600 seconds (10 minutes)";
    causes.push(invalidCause("spec.expirationSeconds", seconds, detail));
  }
  return causes;
}

/** Why the base64 of a PEM block is not a PKCS #10 request. Its signature is checked when it is signed. */
function requestFault(base64: string): string | undefined {
  const pem = Buffer.from(base64, "base64").toString("latin1");
  const match = /-----BEGIN ([^-]+)-----\s*([A-Za-z0-9+/=\s]+)-----END \1-----/.exec(pem);
  if (match?.[1] !== "CERTIFICATE REQUEST") return "PEM block type must be CERTIFICATE REQUEST";
  const der = Buffer.from(match[2] ?? "", "base64");
  return isWholeSequence(der) ? undefined : "asn1: structure error: malformed certificate request";
}

/** Whether the bytes are one DER SEQUENCE. */
function isWholeSequence(der: Buffer): boolean {
  const first = der[1];
  if (der[0] !== 0x30 || first === undefined) return false;
  if (first < 0x80) return der.length === first + 2;
  const lengthBytes = first & 0x7f;
  if (lengthBytes === 0 || lengthBytes > 4 || der.length < 2 + lengthBytes) return false;
  return der.length === 2 + lengthBytes + der.readUIntBE(2, lengthBytes);
}

function signerCauses(field: string, name: string): StatusCause[] {
  if (name === "") return [requiredCause(field)];
  if (name === "kubernetes.io/legacy-unknown") {
    return [invalidCause(field, name, "the legacy signerName is not allowed via this API version")];
  }
  const [domain = "", path = "", ...rest] = name.split("/");
  if (path === "" || rest.length > 0) {
    return [invalidCause(field, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")];
  }
  if (!domain.includes("."))
    return [invalidCause(field, domain, "should be a domain with at least two segments separated by dots")];
  return [...dns1123SubdomainFaults(domain).map((fault) => invalidCause(field, domain, fault))];
}

function conditionCauses(request: Read): StatusCause[] {
  const conditions = listAt(request, "status", "conditions");
  const causes: StatusCause[] = [];
  const seen = new Set<string>();
  for (const [index, condition] of conditions.entries()) {
    const field = `status.conditions[${index}]`;
    const [type, status] = [textAt(condition, "type"), textAt(condition, "status")];
    if (type === "") causes.push(requiredCause(`${field}.type`));
    else if (seen.has(type)) causes.push(duplicateCause(`${field}.type`, type));
    seen.add(type);
    if (status === "") causes.push(requiredCause(`${field}.status`));
    else if ([...decisions, "Failed"].includes(type) && status !== "True") {
      causes.push(notSupportedCause(`${field}.status`, status, ["True"]));
    }
  }
  if (seen.has("Approved") && seen.has("Denied")) {
    causes.push(invalidCause("status.conditions", "Denied", "Approved and Denied conditions are mutually exclusive"));
  }
  return causes;
}

function certificateCauses(request: Read, old: Read | undefined): StatusCause[] {
  const [certificate, before] = [textAt(request, "status", "certificate"), textAt(old, "status", "certificate")];
  const isPem = /-----BEGIN CERTIFICATE-----/.test(Buffer.from(certificate, "base64").toString("latin1"));
  return [
    ...(certificate === "" || isPem
      ? []
      : [invalidCause("status.certificate", "<certificate data>", "must contain at least one CERTIFICATE PEM block")]),
    ...(before === "" || certificate === before
      ? []
      : [forbiddenCause("status.certificate", "updates may not modify existing certificate content")]),
  ];
}

/** A write to `status` neither adds nor removes decisions, which belong to `approval`, nor removes a failure. */
function keptDecisionCauses(request: Read, old: Read): StatusCause[] {
  return [...decisions, "Failed"].flatMap((type) => {
    const [before, after] = [hasCondition(old, type), hasCondition(request, type)];
    if (before === after || (type === "Failed" && after)) return [];
    const verb = before ? "remove" : "add";
    return [forbiddenCause("status.conditions", `updates may not ${verb} a condition of type ${JSON.stringify(type)}`)];
  });
}

function hasCondition(request: Read, type: string): boolean {
  return listAt(request, "status", "conditions").some((condition) => textAt(condition, "type") === type);
}

/** Keeps decisions that a write to `status` repeats as they are. */
function keepDecisions(request: KubernetesObject, old: Read): void {
  const conditions = objectsAt(request, "status", "conditions");
  for (const before of listAt(old, "status", "conditions")) {
    const index = conditions.findIndex((condition) => textAt(condition, "type") === textAt(before, "type"));
    if (index < 0 || !decisions.includes(textAt(before, "type")) || !isJsonObject(before)) continue;
    const condition = conditions[index];
    if (condition === undefined) continue;
    for (const name of Object.keys(condition)) delete condition[name];
    Object.assign(condition, structuredClone(before));
  }
}

/** A decision is final. */
function decisionCauses(request: Read, old: Read): StatusCause[] {
  const find = (object: Read, type: string): unknown =>
    listAt(object, "status", "conditions").find((each) => textAt(each, "type") === type);
  return [...decisions, "Failed"].flatMap((type) => {
    const before = find(old, type);
    const after = find(request, type);
    if (before === undefined) return [];
    if (after === undefined) {
      return [forbiddenCause("status.conditions", `updates may not remove a condition of type ${JSON.stringify(type)}`)];
    }
    return jsonEquals(withoutTimes(before), withoutTimes(after))
      ? []
      : [forbiddenCause("status.conditions", `updates may not modify a condition of type ${JSON.stringify(type)}`)];
  });
}

function withoutTimes(condition: unknown): JsonObject {
  if (!isJsonObject(condition)) return {};
  const { lastUpdateTime: _, lastTransitionTime: __, ...rest } = condition;
  return rest;
}
