import { existsSync } from "node:fs";
import { join } from "node:path";
import { type CgroupHierarchy, listHierarchies } from "../cgroup/cgroup-hierarchies.ts";
import type { TerminalSize } from "../driver.ts";
import { describeError } from "../files/file-error.ts";
import type { FifoPool } from "../io/fifo-pool.ts";
import type { ProcessTree } from "../process/process-tree.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { cgroupParent } from "./container-plan.ts";
import { type ContainerdApi, ignoreNotFound } from "./containerd-api.ts";

/** What the containers of one launcher share. */
export class ContainerContext {
  readonly api: ContainerdApi;
  readonly snapshotter: string;
  /** Pool of FIFOs on the file system of the programs' folders. */
  readonly fifos: FifoPool;
  readonly random: () => number;
  readonly #hierarchies: readonly CgroupHierarchy[];

  constructor(options: Pick<ContainerContext, "api" | "snapshotter" | "fifos" | "random">) {
    this.api = options.api;
    this.snapshotter = options.snapshotter;
    this.fifos = options.fifos;
    this.random = options.random;
    this.#hierarchies = listHierarchies(cgroupParent(options.api.namespace));
  }

  /** The hierarchies in which the runtime created the program's cgroup. */
  hierarchiesOf({ tag }: ProgramFolder): readonly CgroupHierarchy[] {
    return this.#hierarchies.filter(({ parent }) => existsSync(join(parent, tag, "cgroup.procs")));
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
