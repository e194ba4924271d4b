import { jsonEquals } from "@keelson/api-machinery";
import { certificateSubject } from "../auth/certificates/certificate-requests.ts";
import { mastersGroup } from "../auth/certificates/pki.ts";
import type { Authorizer } from "../auth/rbac/rbac-authorizer.ts";
import { forbidden } from "../endpoints/errors.ts";
import { textAt, valueAt } from "../registry/object-fields.ts";
import type { AdmissionRequest, AdmissionStep } from "./admission.ts";

const group = "certificates.k8s.io";

/**
 * Who may decide about CertificateSigningRequests and sign them (kube-apiserver's CertificateApproval, CertificateSigning and
 * CertificateSubjectRestriction): a decision needs the `approve` verb and a certificate the `sign` verb on the signer, and the signer of
 * API clients never issues certificates for `system:masters`.
 */
export function certificateApproval(authorizer: Authorizer): AdmissionStep {
  return {
    name: "CertificateApproval",
    appliesTo: ({ resource }) => resource.group === group && resource.plural === "certificatesigningrequests",
    async validate(request) {
      const { operation, subresource, object, oldObject } = request;
      if (operation === "CREATE") return requireSubject(request);
      if (operation !== "UPDATE" || oldObject === undefined) return;
      const signer = textAt(oldObject, "spec", "signerName");
      if (subresource === "approval") requireSigner(authorizer, request, "approve", signer);
      const changes = (name: string): boolean =>
        !jsonEquals(valueAt(object, "status", name) ?? null, valueAt(oldObject, "status", name) ?? null);
      const isSigned = changes("certificate") || changes("conditions");
      if (subresource === "status" && isSigned) requireSigner(authorizer, request, "sign", signer);
    },
  };
}

function requireSigner(
  authorizer: Authorizer,
  { user, resource, name }: AdmissionRequest,
  verb: "approve" | "sign",
  signer: string,
): void {
  const [domain] = signer.split("/");
  const isAllowed = [signer, `${domain}/*`].some(
    (each) =>
      authorizer.authorize(user, verb, { group, resource: "signers", subresource: "", namespace: "", name: each }).allowed,
  );
  if (isAllowed) return;
  throw forbidden(resource, name, `user not permitted to ${verb} requests with signerName ${JSON.stringify(signer)}`);
}

async function requireSubject({ object, resource, name }: AdmissionRequest): Promise<void> {
  const signer = textAt(object, "spec", "signerName");
  if (signer !== "kubernetes.io/kube-apiserver-client") return;
  const subject = await certificateSubject(textAt(object, "spec", "request"));
  // Validation reports a request that cannot be parsed.
  if (!subject?.organizations.includes(mastersGroup)) return;
  throw forbidden(resource, name, `use of ${signer} signer with ${mastersGroup} group is not allowed`);
}
