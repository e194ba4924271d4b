/** What a controller tells about something that it made or deleted, or could not. */
export interface EventWords {
  readonly reason: string;
  readonly note: string;
  /** Who tells it. */
  readonly controller: string;
}

/** Something that a workload's controller did to one of its parts. */
export interface PartWrite {
  readonly verb: "create" | "delete";
  readonly part: { readonly kind: string; readonly name: string };
  readonly owner: { readonly kind: string; readonly name: string };
  /** Why it did not work. */
  readonly problem?: string;
}

/** The event of a write in the words of kube-controller-manager 1.35, so that what reads Kubernetes' events reads these. */
export function partEvent({ verb, part, owner, problem }: PartWrite): EventWords {
  const isMade = verb === "create";
  const reason = `${problem === undefined ? "Successful" : "Failed"}${isMade ? "Create" : "Delete"}`;
  const controller = controllerOf(owner.kind);
  if (owner.kind !== "StatefulSet") {
    const done = `${isMade ? "Created" : "Deleted"} ${part.kind.toLowerCase()}: ${part.name}`;
    const failed = `Error ${isMade ? "creating" : "deleting"}: ${problem}`;
    return { reason, note: problem === undefined ? done : failed, controller };
  }
  const isClaim = part.kind === "PersistentVolumeClaim";
  // A claim is called after its template and its Pod.
  const podOfClaim = part.name.slice(Math.max(part.name.lastIndexOf(`${owner.name}-`), 0));
  const what = isClaim ? `Claim ${part.name} Pod ${podOfClaim}` : `Pod ${part.name}`;
  const good = isClaim ? "success" : "successful";
  const outcome = problem === undefined ? good : `failed error: ${problem}`;
  return { reason, note: `${verb} ${what} in StatefulSet ${owner.name} ${outcome}`, controller };
}

/** Names that do not follow from a kind: whoever tells of Pods here is the scheduler. */
const otherNames: Readonly<Record<string, string>> = {
  Pod: "default-scheduler",
  PersistentVolume: "persistentvolume-controller",
  PersistentVolumeClaim: "persistentvolume-controller",
};

/** Who tells of a kind in events, as `replicaset-controller`. */
export function controllerOf(kind: string): string {
  return otherNames[kind] ?? `${kind.toLowerCase()}-controller`;
}
