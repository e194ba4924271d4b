import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { PrinterColumn, ScaleSubresource, Schema } from "@keelson/api-machinery/schema";
import { listAt, textAt, valueAt } from "../object-fields.ts";

/** The names of a custom kind (apiextensions/v1 CustomResourceDefinitionNames). */
export interface CrdNames {
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
}

/** A version of a custom kind (apiextensions/v1 CustomResourceDefinitionVersion). */
export interface CrdVersion {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly deprecated?: boolean;
  readonly deprecationWarning?: string;
  readonly schema?: { readonly openAPIV3Schema?: Schema };
  readonly subresources?: { readonly status?: object; readonly scale?: ScaleSubresource };
  readonly additionalPrinterColumns?: readonly PrinterColumn[];
  readonly selectableFields?: readonly { readonly jsonPath: string }[];
}

/** A condition of a CustomResourceDefinition: it has no observedGeneration. */
export interface CrdCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly lastTransitionTime?: string;
  readonly reason?: string;
  readonly message?: string;
}

/** apiextensions/v1 CustomResourceDefinition: the part that the server uses. */
export interface CustomResourceDefinition extends KubernetesObject {
  spec: {
    readonly group: string;
    readonly scope: "Namespaced" | "Cluster";
    readonly names: CrdNames;
    readonly versions: readonly CrdVersion[];
    readonly conversion?: { readonly strategy: string; readonly webhook?: object };
  };
  status?: {
    readonly acceptedNames?: Partial<CrdNames>;
    readonly conditions?: readonly CrdCondition[];
    readonly storedVersions?: readonly string[];
  };
}

/** Group and plural of CustomResourceDefinitions, for storage keys. */
export const crdResource = { group: "apiextensions.k8s.io", plural: "customresourcedefinitions" } as const;

/** Keeps a terminating CRD until its objects are deleted. */
export const cleanupFinalizer = "customresourcecleanup.apiextensions.k8s.io";

/** A stored CRD as its type; it has passed validation. */
export function asCrd(object: DeepReadonly<KubernetesObject>): DeepReadonly<CustomResourceDefinition> {
  return object as DeepReadonly<CustomResourceDefinition>;
}

/** Whether a condition of the CRD is True. */
export function isConditionTrue(crd: unknown, type: string): boolean {
  return listAt(crd, "status", "conditions").some(
    (condition) => textAt(condition, "type") === type && textAt(condition, "status") === "True",
  );
}

/** `conditions` with this one set; lastTransitionTime changes only with the status. */
export function withCondition(
  conditions: readonly CrdCondition[],
  condition: Omit<CrdCondition, "lastTransitionTime">,
  now: string,
): readonly CrdCondition[] {
  const current = conditions.find(({ type }) => type === condition.type);
  const lastTransitionTime = current?.status === condition.status ? (current.lastTransitionTime ?? now) : now;
  const { type, status, reason, message } = condition;
  const next: CrdCondition = {
    type,
    status,
    lastTransitionTime,
    ...(reason ? { reason } : {}),
    ...(message ? { message } : {}),
  };
  return current === undefined ? [...conditions, next] : conditions.map((old) => (old === current ? next : old));
}

/** `status.storedVersions` including the storage version of `spec`. */
export function storedVersions(crd: unknown, previous: unknown): string[] {
  const stored = listAt(previous, "status", "storedVersions").filter((version) => typeof version === "string");
  for (const version of listAt(crd, "spec", "versions")) {
    const name = textAt(version, "name");
    if (valueAt(version, "storage") === true && !stored.includes(name)) stored.push(name);
  }
  return stored;
}
