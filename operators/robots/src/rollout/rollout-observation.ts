import type { DeepReadonly } from "@keelson/api-machinery";
import type { GroupRollout } from "../api/update-policy.ts";
import type { WindowState } from "./maintenance-window.ts";
import type { CompleteUpdatePolicy } from "./update-policy.ts";

/** A task of a group, as a rollout sees it. */
export interface Copy {
  /** Task and index: `run/0`. */
  readonly key: string;
  /** Robot that the task is bound or pinned to. */
  readonly robot?: string;
  /** Whether that robot is not online. */
  readonly isOffline: boolean;
  /** Index of its wave. Copies of later waves are updated later. */
  readonly wave: number;
  /** Revision of the Task. Undefined if the Task does not exist. */
  readonly revision?: number;
  readonly isDeleting: boolean;
  /** When its deletion started, in milliseconds since the epoch. */
  readonly deletedAtMs?: number;
  /** available: runs, and did so for minHealthyTime; starting: may become available; failed: will not. */
  readonly condition: "available" | "starting" | "failed";
  /** Time at which it becomes available if nothing happens, in milliseconds since the epoch. */
  readonly availableAtMs?: number;
  /** Whether the stable revision has this copy. */
  readonly isInStable: boolean;
}

/** What a decision about a rollout depends on. */
export interface RolloutObservation {
  /** Revision that the group should have. */
  readonly revision: number;
  /** Last revision whose rollout completed. */
  readonly stable: number;
  readonly isPaused: boolean;
  readonly isPromoted: boolean;
  /** Whether a failed revision is being replaced. */
  readonly isRevert: boolean;
  readonly policy: CompleteUpdatePolicy;
  /** The copies that the revision has. */
  readonly copies: readonly Copy[];
  /**
   * Number of Tasks that the revision does not have, how many of them are being deleted, and how many of the others the stable revision
   * does not have either, such as after `count` was lowered (default 0).
   */
  readonly surplus: { readonly total: number; readonly deleting: number; readonly unneeded?: number };
  /** The stored status. */
  readonly before: DeepReadonly<GroupRollout> | undefined;
  readonly window: WindowState;
  readonly now: number;
}
