import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** A claim to lead (coordination.k8s.io/v1 Lease). */
export interface Lease extends KubernetesObject {
  spec?: {
    /** Empty: given back. */
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    /** RFC 3339 with microseconds. */
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

/** The kind {@link Lease}. */
export const leaseType: ResourceType<Lease> = {
  group: "coordination.k8s.io",
  version: "v1",
  kind: "Lease",
  plural: "leases",
  scope: "Namespaced",
};

/** A time as MicroTime (meta/v1): RFC 3339 with six digits of a second. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
