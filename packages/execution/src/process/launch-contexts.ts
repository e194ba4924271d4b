import { existsSync } from "node:fs";
import { join } from "node:path";
import { createCgroup, type ProgramCgroup, removeStaleCgroups } from "../cgroup/cgroup.ts";
import { discoverCgroups, removeEmptyParent, sharedParent } from "../cgroup/cgroup-hierarchies.ts";
import { limitProgramPids } from "../cgroup/group-limits.ts";
import {
  enterProgramGroup,
  neighborGroups,
  type ProgramGroup,
  removeEmptyGroup,
  restoreProgramGroup,
} from "../cgroup/program-group.ts";
import { withDiskLimit } from "../program/limits/limits-record.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import type { LaunchContext } from "./launch-context.ts";
import type { LaunchRequest } from "./launcher.ts";
import { ProcessList } from "./proc.ts";
import type { Wrapping } from "./wrapping.ts";

/** An empty cgroup older than this is abandoned. */
const staleCgroupMs = 60_000;

/** What {@link LaunchContexts} needs. */
export interface LaunchContextsOptions extends Partial<Wrapping> {
  /** See `ProcessDriverOptions.cgroupParent`. */
  readonly cgroupParent?: string | false;
  /** See `ProcessDriverOptions.group`. */
  readonly group?: ProgramGroup;
}

/** Where the programs of one process launcher have their cgroups. */
export class LaunchContexts {
  /** That of new programs. */
  readonly current: LaunchContext;
  /** Whether the caller named the parent cgroup. */
  readonly hasOwnParent: boolean;
  readonly #options: LaunchContextsOptions;
  /** That of programs which an earlier version started outside the group. */
  readonly #former: LaunchContext;

  constructor(options: LaunchContextsOptions) {
    const { cgroupParent, group } = options;
    const hierarchies = cgroupParent === false ? [] : discoverCgroups(cgroupParent);
    this.#options = options;
    this.#former = { wrapping: options, hierarchies, processes: new ProcessList() };
    this.current = group === undefined ? this.#former : { ...this.#former, hierarchies: enterProgramGroup(hierarchies, group) };
    this.hasOwnParent = typeof cgroupParent === "string";
  }

  /** The context of a program that an earlier supervisor may have started. */
  of({ tag }: ProgramFolder): LaunchContext {
    return this.#former.hierarchies.some(({ parent }) => existsSync(join(parent, tag))) ? this.#former : this.current;
  }

  /** Creates a program's cgroup, or changes the limits of the one that its slot has. */
  create({ spec, folder }: Pick<LaunchRequest, "spec" | "folder">): ProgramCgroup {
    const { group } = this.#options;
    if (group !== undefined) restoreProgramGroup(this.current.hierarchies, group);
    const scope = this.hasOwnParent ? "all" : group === undefined ? "limited" : "controlled";
    const cgroup = createCgroup(this.current.hierarchies, folder.tag, spec.limits ?? {}, scope);
    if (group !== undefined && spec.limits?.pids === undefined) limitProgramPids(this.current.hierarchies, folder.tag);
    return withDiskLimit(cgroup, spec, this.#options.diskLimit?.(spec));
  }

  /** Removes cgroups that killed supervisors left behind, including those of data directories that no longer exist. `now` is in milliseconds since the epoch. */
  sweep(now: number): void {
    const { group } = this.#options;
    const own = [...new Set([this.current, this.#former])].map(({ hierarchies }) => hierarchies);
    const others = group === undefined ? [] : neighborGroups(this.#former.hierarchies, group);
    for (const hierarchies of [...own, ...others]) removeStaleCgroups(hierarchies, now - staleCgroupMs);
    for (const hierarchies of others) removeEmptyGroup(hierarchies, now - staleCgroupMs);
  }

  /** Removes the group and the parent wherever they are empty. */
  close(): void {
    const { cgroupParent, group } = this.#options;
    if (group !== undefined) removeEmptyGroup(this.current.hierarchies);
    if (cgroupParent !== false) removeEmptyParent(cgroupParent ?? sharedParent);
  }
}
