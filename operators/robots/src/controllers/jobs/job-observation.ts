import type { DeepReadonly } from "@keelson/api-machinery";
import type { Job } from "../../api/job.ts";
import type { TaskGroup } from "../../api/taskgroup.ts";
import type { JobRevision } from "../../rollout/job-revision.ts";
import type { RolloutEvent } from "../../rollout/job-rollout.ts";

/** What a decision about a Job depends on. */
export interface JobObservation {
  readonly job: DeepReadonly<Job>;
  /** The TaskGroups that the Job owns. */
  readonly groups: readonly DeepReadonly<TaskGroup>[];
  /** Looks up any TaskGroup of the namespace by name. */
  readonly groupNamed: (name: string) => DeepReadonly<TaskGroup> | undefined;
  /** The Job's revisions, oldest first. Used only for the types `service` and `system`. */
  readonly revisions: readonly JobRevision[];
  readonly now: number;
}

/** A TaskGroup to apply. */
export interface TaskGroupDraft {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: DeepReadonly<TaskGroup["spec"]>;
}

/** Writes: first the new revision, then the TaskGroups, then the status (absent: unchanged) with its events. */
export interface JobDecision {
  /** Revision to create from the spec. The rest follows once it exists. */
  readonly newRevision?: {
    readonly name: string;
    readonly number: number;
    readonly data: Pick<JobRevision, "spec" | "groupRevisions">;
  };
  readonly groups: readonly TaskGroupDraft[];
  /** TaskGroups to delete, by name. */
  readonly removeGroups?: readonly string[];
  /** Revisions to delete, by name. */
  readonly removeRevisions?: readonly string[];
  readonly status?: NonNullable<Job["status"]>;
  readonly events?: readonly RolloutEvent[];
}
