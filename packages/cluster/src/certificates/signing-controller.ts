import type { RequestedCertificate } from "@keelson/api-machinery/certificates";
import { formatTime } from "@keelson/api-machinery/time";
import { type ControllerDefinition, defineController } from "@keelson/controller";
import { performWrites } from "../workload/perform-writes.ts";
import type { Cached } from "../workload/write.ts";
import { CertificateSigningRequest, type CertificateSigningRequestObject, decideSigning, isDue } from "./signing-decision.ts";

/** Signs with the cluster's authority. */
export interface CertificateSigner {
  /** Reads `spec.request`; undefined if it cannot be parsed. */
  subjectOf(request: string): Promise<RequestedCertificate | undefined>;
  /** Returns the certificate in PEM. */
  sign(options: {
    readonly request: string;
    readonly usages: readonly string[];
    readonly notBefore: Date;
    readonly notAfter: Date;
  }): Promise<string>;
}

/** Tolerates clock differences between machines, as in kube-controller-manager. */
const backdateMs = 5 * 60 * 1000;

/**
 * Creates the controller that issues certificates for approved CertificateSigningRequests of the signers for API clients, kubelets and
 * their servers. A request that breaks the rules of its signer gets the `Failed` condition.
 */
export function createSigningController(signer: CertificateSigner): ControllerDefinition {
  return defineController({
    name: "certificatesigningrequest-signing",
    for: CertificateSigningRequest,
    predicates: [({ object }) => isDue(object)],
    async reconcile(key, context) {
      const request = context.cache.get(CertificateSigningRequest, key);
      if (request === undefined || !isDue(request)) return;
      const now = context.clock.now();
      const decision = decideSigning(request, await signer.subjectOf(request.spec.request));
      if (decision.kind === "none") return;
      if (decision.kind === "fail") {
        const failed = { type: "Failed", status: "True", reason: "SignerValidationFailure", message: decision.message };
        const conditions = [...(request.status?.conditions ?? []), { ...failed, lastUpdateTime: formatTime(now) }];
        await performWrites([statusWrite(request, { conditions })], context);
        return;
      }
      const pem = await signer.sign({
        request: request.spec.request,
        usages: request.spec.usages,
        notBefore: new Date(now - backdateMs),
        notAfter: new Date(now + decision.validMs),
      });
      await performWrites([statusWrite(request, { certificate: Buffer.from(pem).toString("base64") })], context);
    },
  });
}

function statusWrite(request: Cached<CertificateSigningRequestObject>, change: object) {
  const object = { ...request, status: { ...request.status, ...change } } as Cached;
  return { kind: "status", type: CertificateSigningRequest, object } as const;
}
