/** An event about a part that a controller created or deleted, or failed to. */
export interface PartEvent {
  readonly reason: string;
  readonly note: string;
  /** The reporting controller. */
  readonly controller: string;
}

/** A write to a part of a workload. */
export interface PartWrite {
  readonly verb: "create" | "delete";
  readonly part: { readonly kind: string; readonly name: string };
  readonly owner: { readonly kind: string; readonly name: string };
  /** The error, if the write failed. */
  readonly problem?: string;
}

/** The event of a write, in the exact wording of kube-controller-manager 1.35, because users match on it. */
export function partEvent({ verb, part, owner, problem }: PartWrite): PartEvent {
  const isCreate = verb === "create";
  const reason = `${problem === undefined ? "Successful" : "Failed"}${isCreate ? "Create" : "Delete"}`;
  const controller = controllerOf(owner.kind);
  if (owner.kind === "CronJob") {
    const done = `${isCreate ? "Created" : "Deleted"} job ${part.name}`;
    const failed = isCreate ? `Error creating job: ${problem}` : `Deleted job: ${problem}`;
    return { reason, note: problem === undefined ? done : failed, controller };
  }
  if (owner.kind !== "StatefulSet") {
    const done = `${isCreate ? "Created" : "Deleted"} ${part.kind.toLowerCase()}: ${part.name}`;
    const failed = `Error ${isCreate ? "creating" : "deleting"}: ${problem}`;
    return { reason, note: problem === undefined ? done : failed, controller };
  }
  const isClaim = part.kind === "PersistentVolumeClaim";
  // A claim is named TEMPLATE-POD.
  const podOfClaim = part.name.slice(Math.max(part.name.lastIndexOf(`${owner.name}-`), 0));
  const what = isClaim ? `Claim ${part.name} Pod ${podOfClaim}` : `Pod ${part.name}`;
  const success = isClaim ? "success" : "successful";
  const outcome = problem === undefined ? success : `failed error: ${problem}`;
  return { reason, note: `${verb} ${what} in StatefulSet ${owner.name} ${outcome}`, controller };
}

/** Reporters whose name does not follow from the kind. Events about Pods come from the scheduler. */
const otherNames: Readonly<Record<string, string>> = {
  Pod: "default-scheduler",
  ReplicationController: "replication-controller",
  DaemonSet: "daemonset-controller",
  CronJob: "cronjob-controller",
  HorizontalPodAutoscaler: "horizontal-pod-autoscaler",
  PersistentVolume: "persistentvolume-controller",
  PersistentVolumeClaim: "persistentvolume-controller",
};

/** The reporting controller for events about a kind, for example `replicaset-controller`. */
export function controllerOf(kind: string): string {
  return otherNames[kind] ?? `${kind.toLowerCase()}-controller`;
}
