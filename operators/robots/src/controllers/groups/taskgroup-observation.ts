import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import type { TaskGroup } from "../../api/taskgroup.ts";

/** What a decision about a TaskGroup depends on. */
export interface TaskGroupObservation {
  readonly group: DeepReadonly<TaskGroup>;
  /** The Tasks that the group owns. */
  readonly tasks: readonly DeepReadonly<Task>[];
  /** Looks up any Task of the namespace by name. */
  readonly taskNamed: (name: string) => DeepReadonly<Task> | undefined;
  /** Spec of the group in the stable revision of its Job, if that exists and differs from the group's. */
  readonly stable?: DeepReadonly<TaskGroup["spec"]>;
  /** The robots of the namespace. Used only for a group with a revision, or of type `system` or `sysbatch`. */
  readonly robots: readonly DeepReadonly<Robot>[];
  readonly now: number;
}
