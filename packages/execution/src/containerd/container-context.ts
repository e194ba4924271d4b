import { existsSync } from "node:fs";
import { join } from "node:path";
import { type CgroupHierarchy, discoverCgroups, listHierarchies, removeEmptyParent } from "../cgroup/cgroup-hierarchies.ts";
import { limitGroup } from "../cgroup/group-limits.ts";
import { type ProgramGroup, shareCpu } from "../cgroup/program-group.ts";
import { limitSockets } from "../cgroup/cgroup-limits.ts";
import type { Limits, TerminalSize } from "../driver.ts";
import { describeError } from "../files/file-error.ts";
import type { FifoPool } from "../io/fifo-pool.ts";
import type { ProcessTree } from "../process/process-tree.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { cgroupParent } from "./container-plan.ts";
import { type ContainerdApi, ignoreNotFound } from "./containerd-api.ts";

/** What {@link ContainerContext} needs. */
export interface ContainerContextOptions extends Pick<ContainerContext, "api" | "snapshotter" | "fifos" | "random"> {
  readonly group?: ProgramGroup;
}

/** What the containers of one launcher share. */
export class ContainerContext {
  readonly api: ContainerdApi;
  readonly snapshotter: string;
  /** Pool of FIFOs on the file system of the programs' directories. */
  readonly fifos: FifoPool;
  readonly random: () => number;
  readonly group: ProgramGroup | undefined;
  readonly #grouped: readonly CgroupHierarchy[];
  /** Those of programs without a group, including of an earlier version. */
  readonly #ungrouped: readonly CgroupHierarchy[];

  constructor(options: ContainerContextOptions) {
    this.api = options.api;
    this.snapshotter = options.snapshotter;
    this.fifos = options.fifos;
    this.random = options.random;
    this.group = options.group;
    this.#ungrouped = listHierarchies(cgroupParent(options.api.namespace));
    this.#grouped = options.group === undefined ? [] : listHierarchies(cgroupParent(options.api.namespace, options.group));
    // The ancestors delegate their controllers to the group.
    if (options.group === undefined) return;
    const hierarchies = discoverCgroups(cgroupParent(options.api.namespace, options.group));
    shareCpu(hierarchies, options.group);
    limitGroup(hierarchies);
  }

  /** Removes the group wherever it is empty: the runtime creates it in every hierarchy of the machine. */
  close(): void {
    if (this.group !== undefined) removeEmptyParent(cgroupParent(this.api.namespace, this.group));
  }

  /** The hierarchies in which the runtime created the program's cgroup. */
  hierarchiesOf({ tag }: ProgramFolder): readonly CgroupHierarchy[] {
    return [...this.#grouped, ...this.#ungrouped].filter(({ parent }) => existsSync(join(parent, tag, "cgroup.procs")));
  }

  /** Limits the buffers of a program's sockets, which runc does not, to its memory. */
  limitSockets(folder: ProgramFolder, { memoryBytes }: Limits): void {
    if (memoryBytes === undefined) return;
    for (const { parent, version, controllers } of this.hierarchiesOf(folder))
      if (version === 1 && controllers.has("memory")) limitSockets(join(parent, folder.tag), memoryBytes);
  }

  /** The processes of a program. */
  treeOf(folder: ProgramFolder): ProcessTree {
    const own = this.hierarchiesOf(folder);
    return { tag: folder.tag, hierarchies: own, isGrouped: own.length > 0 };
  }

  /** Removes container, task and snapshot of a program; missing ones are ignored. */
  async erase(folder: ProgramFolder): Promise<void> {
    const { tasks, containers, snapshots } = this.api;
    await ignoreNotFound(tasks.delete({ containerId: folder.tag }));
    await ignoreNotFound(containers.delete({ id: folder.tag }));
    await ignoreNotFound(snapshots.remove({ snapshotter: this.snapshotter, key: folder.tag }));
  }

  /** Sets the size of a program's terminal; fails silently if the program has exited. */
  async resize({ tag }: ProgramFolder, { columns, rows }: TerminalSize): Promise<void> {
    await this.api.tasks.resizePty({ containerId: tag, width: columns, height: rows }).catch(() => {});
  }
}

/** Task states of containerd's API: created but not started, stopped, and frozen or being frozen. */
export const taskStates = { created: 1, stopped: 3, paused: 4, pausing: 5 } as const;

/** The message of an error without the gRPC code in front. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/^\[\w+\] /, "") : describeError(error);
}
