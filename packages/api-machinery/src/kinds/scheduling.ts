import type { LabelSelector } from "../selectors/label-selector.ts";

/** A requirement on a label, or on a field when used in `matchFields` (core/v1 NodeSelectorRequirement). */
export interface NodeSelectorRequirement {
  key: string;
  operator: "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt";
  values?: string[];
}

/** Requirements on a node, all of which must hold (core/v1 NodeSelectorTerm). */
export interface NodeSelectorTerm {
  matchExpressions?: NodeSelectorRequirement[];
  matchFields?: NodeSelectorRequirement[];
}

/** Pods to run close to or away from (core/v1 PodAffinityTerm). */
export interface PodAffinityTerm {
  /** The node label that defines the topology domain, such as `kubernetes.io/hostname`. */
  topologyKey: string;
  labelSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  namespaces?: string[];
  matchLabelKeys?: string[];
  mismatchLabelKeys?: string[];
}

interface PodAffinityTerms {
  requiredDuringSchedulingIgnoredDuringExecution?: PodAffinityTerm[];
  preferredDuringSchedulingIgnoredDuringExecution?: { weight: number; podAffinityTerm: PodAffinityTerm }[];
}

/** Required and preferred placement of a Pod (core/v1 Affinity). */
export interface Affinity {
  nodeAffinity?: {
    requiredDuringSchedulingIgnoredDuringExecution?: { nodeSelectorTerms: NodeSelectorTerm[] };
    preferredDuringSchedulingIgnoredDuringExecution?: { weight: number; preference: NodeSelectorTerm }[];
  };
  podAffinity?: PodAffinityTerms;
  podAntiAffinity?: PodAffinityTerms;
}

/** A taint that a Pod tolerates (core/v1 Toleration). */
export interface Toleration {
  key?: string;
  operator?: string;
  value?: string;
  effect?: string;
  tolerationSeconds?: number;
}

/** How Pods spread over topology domains (core/v1 TopologySpreadConstraint). */
export interface TopologySpreadConstraint {
  maxSkew: number;
  topologyKey: string;
  whenUnsatisfiable: "DoNotSchedule" | "ScheduleAnyway";
  labelSelector?: LabelSelector;
  matchLabelKeys?: string[];
  minDomains?: number;
  nodeAffinityPolicy?: "Honor" | "Ignore";
  nodeTaintsPolicy?: "Honor" | "Ignore";
}
