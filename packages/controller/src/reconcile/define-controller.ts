import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Read } from "../cache/cache.ts";
import type {
  ControllerBackoff,
  ControllerDefinition,
  Predicate,
  ReconcileContext,
  Trigger,
  Watch,
} from "./controller-definition.ts";
import type { Request, Result } from "./result.ts";

/** Options of {@link defineController}: a {@link ControllerDefinition} with types and defaults. */
export interface ControllerOptions<T extends KubernetesObject> {
  readonly name: string;
  readonly for: ResourceType<T>;
  readonly predicates?: readonly Predicate<T>[];
  readonly owns?: readonly ResourceType[];
  /** Created by {@link watchOf}. */
  readonly watches?: readonly Watch<KubernetesObject>[];
  /** Created by {@link readOf}. */
  readonly reads?: readonly Read<KubernetesObject>[];
  readonly triggers?: readonly Trigger[];
  readonly priorityOf?: ControllerDefinition["priorityOf"];
  readonly maxConcurrentReconciles?: number;
  readonly reconcileTimeoutMs?: number;
  readonly backoff?: ControllerBackoff;
  readonly needsLeaderElection?: boolean;
  readonly warmUp?: boolean;
  readonly reconcile: (request: Request, context: ReconcileContext) => Promise<Result | undefined | void>;
}

/** Declares a controller. */
export function defineController<T extends KubernetesObject>(options: ControllerOptions<T>): ControllerDefinition {
  const { predicates, ...rest } = options;
  return {
    owns: [],
    watches: [],
    reads: [],
    ...rest,
    ...(predicates ? { predicates: predicates as readonly Predicate<KubernetesObject>[] } : {}),
  };
}

/** Declares a watch of a further kind. */
export function watchOf<T extends KubernetesObject>(
  type: ResourceType<T>,
  map: Watch<T>["map"],
  predicates?: readonly Predicate<T>[],
): Watch<KubernetesObject> {
  // Controllers hold watches of many kinds in one list. The manager calls a watch only with objects of its kind.
  return { type, map, ...(predicates ? { predicates } : {}) } as unknown as Watch<KubernetesObject>;
}
