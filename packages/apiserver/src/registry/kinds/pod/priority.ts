import { type Store, storageKey } from "../../../storage/store.ts";
import { textAt, valueAt } from "../../object-fields.ts";

/** The system's PriorityClasses, which exist even if they are not stored. */
export const systemPriorities: Readonly<Record<string, number>> = {
  "system-cluster-critical": 2_000_000_000,
  "system-node-critical": 2_000_001_000,
};

const priorityClasses = { group: "scheduling.k8s.io", plural: "priorityclasses" };

/** What a Pod takes from its PriorityClass. */
export interface PodPriority {
  /** `""` without a class. */
  readonly name: string;
  readonly value: number;
  readonly preemptionPolicy: string;
}

/** The priority of a class; for an empty name that of the default class, or else 0. Undefined if the class does not exist. */
export function priorityOf(store: Pick<Store, "get" | "list">, name: string): PodPriority | undefined {
  if (name !== "") {
    if (Object.hasOwn(systemPriorities, name)) {
      return { name, value: systemPriorities[name] ?? 0, preemptionPolicy: "PreemptLowerPriority" };
    }
    const stored = store.get(storageKey(priorityClasses, "", name));
    return stored === undefined ? undefined : read(stored.object);
  }
  let best: PodPriority | undefined;
  for (const { object } of store.list(storageKey(priorityClasses, "", "")).items) {
    if (valueAt(object, "globalDefault") !== true) continue;
    const found = read(object);
    if (best === undefined || found.value < best.value) best = found;
  }
  return best ?? { name: "", value: 0, preemptionPolicy: "PreemptLowerPriority" };
}

function read(object: unknown): PodPriority {
  const value = valueAt(object, "value");
  return {
    name: textAt(object, "metadata", "name"),
    value: typeof value === "number" ? value : 0,
    preemptionPolicy: textAt(object, "preemptionPolicy") || "PreemptLowerPriority",
  };
}
