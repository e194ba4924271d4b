import type { KubernetesObject } from "@keelson/api-machinery";
import type { BuiltInCondition } from "@keelson/api-machinery/kinds";

/** The API group of flow control. */
export const flowControlGroup = "flowcontrol.apiserver.k8s.io";

/** A subject of a FlowSchema. `*` matches every name. */
export interface FlowSubject {
  kind: "User" | "Group" | "ServiceAccount";
  user?: { name: string };
  group?: { name: string };
  serviceAccount?: { namespace: string; name: string };
}

/** Subjects and the requests of theirs that match. */
export interface FlowRules {
  subjects?: FlowSubject[];
  resourceRules?: {
    verbs?: string[];
    apiGroups?: string[];
    resources?: string[];
    namespaces?: string[];
    clusterScope?: boolean;
  }[];
  nonResourceRules?: { verbs?: string[]; nonResourceURLs?: string[] }[];
}

/** flowcontrol.apiserver.k8s.io/v1 FlowSchema: assigns requests to a priority level. */
export interface FlowSchemaObject extends KubernetesObject {
  spec: {
    priorityLevelConfiguration: { name: string };
    /** Schemas with a lower number are tried first. Default 1000. */
    matchingPrecedence?: number;
    /** Splits the requests of a schema into flows. Default: one flow. */
    distinguisherMethod?: { type: "ByUser" | "ByNamespace" };
    rules?: FlowRules[];
  };
  status?: { conditions?: BuiltInCondition[] };
}

/** How requests wait for a seat. */
export interface QueuingConfiguration {
  queues?: number;
  handSize?: number;
  queueLengthLimit?: number;
}

/** flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration: limits the concurrency of its requests. */
export interface PriorityLevelObject extends KubernetesObject {
  spec: {
    type: "Exempt" | "Limited";
    exempt?: { nominalConcurrencyShares?: number; lendablePercent?: number };
    limited?: {
      nominalConcurrencyShares?: number;
      lendablePercent?: number;
      borrowingLimitPercent?: number;
      limitResponse?: { type: "Queue" | "Reject"; queuing?: QueuingConfiguration };
    };
  };
  status?: { conditions?: BuiltInCondition[] };
}
