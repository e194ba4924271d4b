import type { LabelSelector } from "../selectors/label-selector.ts";

/** A requirement on a label, or on a field where it stands in `matchFields` (core/v1 NodeSelectorRequirement). */
export interface NodeSelectorRequirement {
  key: string;
  operator: "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt";
  values?: string[];
}

/** What a node has to be: all of these (core/v1 NodeSelectorTerm). */
export interface NodeSelectorTerm {
  matchExpressions?: NodeSelectorRequirement[];
  matchFields?: NodeSelectorRequirement[];
}

/** Pods beside which a Pod is to run, or not (core/v1 PodAffinityTerm). */
export interface PodAffinityTerm {
  /** The label of nodes whose value makes them one place: `kubernetes.io/hostname`. */
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

/** Where a Pod may run, and where it would rather (core/v1 Affinity). */
export interface Affinity {
  nodeAffinity?: {
    requiredDuringSchedulingIgnoredDuringExecution?: { nodeSelectorTerms: NodeSelectorTerm[] };
    preferredDuringSchedulingIgnoredDuringExecution?: { weight: number; preference: NodeSelectorTerm }[];
  };
  podAffinity?: PodAffinityTerms;
  podAntiAffinity?: PodAffinityTerms;
}

/** A taint that a Pod bears (core/v1 Toleration). */
export interface Toleration {
  key?: string;
  operator?: string;
  value?: string;
  effect?: string;
  tolerationSeconds?: number;
}

/** How evenly Pods are spread (core/v1 TopologySpreadConstraint). */
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
