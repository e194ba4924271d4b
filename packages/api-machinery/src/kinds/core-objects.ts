import type { BuiltInCondition, KubernetesObject } from "../objects/object.ts";
import type { Scope } from "../objects/resource.ts";
import type { LabelSelector } from "../selectors/label-selector.ts";

/*
 * The core kinds, with the fields that controllers use. Fields that are not typed here still exist at run time: these types
 * are not schemas, and declaration merging can extend them.
 */

/** A reference to an object (core/v1 ObjectReference). */
export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  name?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  fieldPath?: string;
}

/** core/v1 Namespace. */
export interface NamespaceObject extends KubernetesObject {
  spec?: { finalizers?: string[] };
  status?: { phase?: "Active" | "Terminating"; conditions?: BuiltInCondition[] };
}

/** core/v1 ConfigMap. */
export interface ConfigMapObject extends KubernetesObject {
  data?: Record<string, string>;
  /** Values are base64. */
  binaryData?: Record<string, string>;
  immutable?: boolean;
}

/** core/v1 Secret. */
export interface SecretObject extends KubernetesObject {
  type?: string;
  /** Values are base64. */
  data?: Record<string, string>;
  /** Write-only plain text; the server moves it to `data`. */
  stringData?: Record<string, string>;
  immutable?: boolean;
}

/** core/v1 ServiceAccount. */
export interface ServiceAccountObject extends KubernetesObject {
  automountServiceAccountToken?: boolean;
  imagePullSecrets?: { name?: string }[];
  secrets?: ObjectReference[];
}

/** A core/v1 Event. New code writes {@link EventsEventObject}. */
export interface EventObject extends KubernetesObject {
  involvedObject: ObjectReference;
  reason?: string;
  message?: string;
  type?: string;
  count?: number;
  firstTimestamp?: string | null;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  action?: string;
  source?: { component?: string; host?: string };
  reportingComponent?: string;
  reportingInstance?: string;
}

/** An events.k8s.io/v1 Event. */
export interface EventsEventObject extends KubernetesObject {
  /** RFC 3339 in microseconds. */
  eventTime: string;
  /** At most 128 characters, as `reason`. */
  action?: string;
  reason?: string;
  /** At most 1,024 bytes. */
  note?: string;
  type?: "Normal" | "Warning";
  regarding?: ObjectReference;
  related?: ObjectReference;
  reportingController?: string;
  reportingInstance?: string;
  series?: { count: number; lastObservedTime: string };
}

/** coordination.k8s.io/v1 Lease. */
export interface LeaseObject extends KubernetesObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    /** RFC 3339 in microseconds, as `renewTime`. */
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
    strategy?: string;
    preferredHolder?: string;
  };
}

/** apiextensions.k8s.io/v1 CustomResourceDefinition. */
export interface CustomResourceDefinitionObject extends KubernetesObject {
  spec: {
    group: string;
    scope: Scope;
    names: {
      plural: string;
      kind: string;
      singular?: string;
      listKind?: string;
      shortNames?: string[];
      categories?: string[];
    };
    versions: CustomResourceDefinitionVersion[];
    conversion?: { strategy: "None" | "Webhook"; webhook?: unknown };
    preserveUnknownFields?: boolean;
  };
  status?: {
    conditions?: BuiltInCondition[];
    acceptedNames?: CustomResourceDefinitionObject["spec"]["names"];
    storedVersions?: string[];
  };
}

/** One version of a {@link CustomResourceDefinitionObject}. */
export interface CustomResourceDefinitionVersion {
  name: string;
  served: boolean;
  storage: boolean;
  deprecated?: boolean;
  deprecationWarning?: string;
  schema?: { openAPIV3Schema?: unknown };
  subresources?: {
    status?: object;
    scale?: { specReplicasPath: string; statusReplicasPath: string; labelSelectorPath?: string };
  };
  additionalPrinterColumns?: {
    name: string;
    type: string;
    jsonPath: string;
    description?: string;
    format?: string;
    priority?: number;
  }[];
  selectableFields?: { jsonPath: string }[];
}

/** One rule of a Role or ClusterRole (rbac/v1 PolicyRule). */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[];
  /** `pods`, `pods/log`, `*`, or a wildcard over the kinds with a subresource, such as `*\/scale`. */
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  /** Paths; the last segment may be `*`. ClusterRoles only. */
  readonly nonResourceURLs?: readonly string[];
}

/** rbac/v1 Role. */
export interface RoleObject extends KubernetesObject {
  rules?: PolicyRule[] | null;
}

/** rbac/v1 ClusterRole. */
export interface ClusterRoleObject extends KubernetesObject {
  rules?: PolicyRule[] | null;
  aggregationRule?: { clusterRoleSelectors?: LabelSelector[] };
}

/** rbac/v1 RoleBinding and ClusterRoleBinding. */
export interface RoleBindingObject extends KubernetesObject {
  roleRef: { apiGroup: string; kind: "Role" | "ClusterRole"; name: string };
  subjects?: { kind: "User" | "Group" | "ServiceAccount"; name: string; namespace?: string; apiGroup?: string }[];
}
