import type { RequestedCertificate } from "@keelson/api-machinery/certificates";
import { isConditionTrue, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { Cached } from "../workload/write.ts";

/** certificates.k8s.io/v1 CertificateSigningRequest. */
export interface CertificateSigningRequestObject extends KubernetesObject {
  spec: {
    /** Base64 of a PEM block. */
    request: string;
    signerName: string;
    usages: string[];
    expirationSeconds?: number;
    username?: string;
  };
  status?: {
    conditions?: { type: string; status: string; reason?: string; message?: string; lastUpdateTime?: string }[];
    /** Base64 of PEM blocks. */
    certificate?: string;
  };
}

/** The resource of {@link CertificateSigningRequestObject}. */
export const CertificateSigningRequest: ResourceType<CertificateSigningRequestObject> = {
  group: "certificates.k8s.io",
  version: "v1",
  kind: "CertificateSigningRequest",
  plural: "certificatesigningrequests",
  scope: "Cluster",
};

/** The next step for a request. */
export type SigningDecision =
  /** Not approved, already answered, or for another signer. */
  | { readonly kind: "none" }
  | { readonly kind: "sign"; readonly validMs: number }
  /** The request does not meet the rules of its signer. */
  | { readonly kind: "fail"; readonly message: string };

/** The longest validity of an issued certificate, as in kube-controller-manager. */
const maxValidMs = 365 * 24 * 60 * 60 * 1000;

const clientUsages = ["client auth", "digital signature", "key encipherment"];
const servingUsages = ["server auth", "digital signature", "key encipherment"];

/** The rules of the built-in signers; each returns why it rejects a request. */
const signers: Readonly<Record<string, (usages: readonly string[], subject: RequestedCertificate) => string | undefined>> = {
  "kubernetes.io/kube-apiserver-client": (usages) => usageFault(usages, clientUsages, "client auth"),
  "kubernetes.io/kube-apiserver-client-kubelet": (usages, subject) =>
    usageFault(usages, clientUsages, "client auth") ??
    nodeFault(subject) ??
    (namesOf(subject) > 0 ? "subjectAltNames are not allowed" : undefined),
  "kubernetes.io/kubelet-serving": (usages, subject) =>
    usageFault(usages, servingUsages, "server auth") ??
    nodeFault(subject) ??
    (subject.emails.length > 0 ? "Email subjectAltNames are not allowed" : undefined) ??
    (subject.uris.length > 0 ? "URI subjectAltNames are not allowed" : undefined) ??
    (subject.dnsNames.length + subject.ipAddresses.length === 0 ? "DNS or IP subjectAltName is required" : undefined),
};

/** Whether the cluster's signer answers a request: approved, without a response, and for a signer that it is. */
export function isDue({ spec, status }: Cached<CertificateSigningRequestObject>): boolean {
  const conditions = status?.conditions ?? [];
  const has = (type: string): boolean => isConditionTrue(conditions, type);
  if (!has("Approved") || has("Denied") || has("Failed") || (status?.certificate ?? "") !== "") return false;
  return Object.hasOwn(signers, spec.signerName);
}

/** Decides about a request. `subject` is undefined if its body cannot be parsed. */
export function decideSigning(
  request: Cached<CertificateSigningRequestObject>,
  subject: RequestedCertificate | undefined,
): SigningDecision {
  if (!isDue(request)) return { kind: "none" };
  if (subject === undefined) return { kind: "fail", message: "unable to parse csr" };
  const { signerName, usages, expirationSeconds } = request.spec;
  const fault = signers[signerName]?.(usages, subject);
  if (fault !== undefined) return { kind: "fail", message: fault };
  const requestedMs = expirationSeconds === undefined ? maxValidMs : expirationSeconds * 1000;
  return { kind: "sign", validMs: Math.min(requestedMs, maxValidMs) };
}

function usageFault(usages: readonly string[], allowed: readonly string[], required: string): string | undefined {
  const isAllowed = usages.every((usage) => allowed.includes(usage));
  if (isAllowed && usages.includes(required)) return undefined;
  return `usages did not match ${JSON.stringify(allowed)} with ${JSON.stringify(required)} required`;
}

function nodeFault({ organizations, commonName }: RequestedCertificate): string | undefined {
  if (organizations.length !== 1 || organizations[0] !== "system:nodes") return "subject organization is not system:nodes";
  return commonName.startsWith("system:node:") ? undefined : "subject common name does not begin with system:node:";
}

function namesOf({ dnsNames, ipAddresses, emails, uris }: RequestedCertificate): number {
  return dnsNames.length + ipAddresses.length + emails.length + uris.length;
}
