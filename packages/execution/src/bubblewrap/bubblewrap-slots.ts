import { chmodSync, chownSync, closeSync, openSync, readFileSync, readSync, writeFileSync } from "node:fs";
import type { ProgramSpec } from "../driver.ts";
import { pathInRoot } from "../files/root-path.ts";
import { type LaunchRequest, StartFailure } from "../process/launcher.ts";
import type { Execution, SlotWrapping } from "../process/wrapping.ts";
import { claimFile, findExecutable } from "../program/files/program-files.ts";
import { bubblewrapChild } from "../program/network-namespace.ts";
import { hasEnteredRoot } from "../program/program-root.ts";
import { readExit } from "../shim/shim-exit.ts";
import { hasStub } from "../stub/executable.ts";
import { claimStub, isUnclaimed, unclaimedStub } from "../stub/start-stub.ts";
import type { SlotShape } from "../warm/warm-plan.ts";
import {
  type BubblewrapWrappingOptions,
  bwrapCommand,
  createFiles,
  environmentOf,
  filesOf,
  settingsFolder,
  stageOf,
  statusFile,
  temporaryFolder,
  workingDirectory,
  writeOptions,
} from "./bubblewrap-options.ts";
import { privateUser, setArguments, Stage } from "./private-user.ts";
import { notExecutable, type Staging } from "./staging.ts";

/*
 * Slots for programs with a private user. Both kinds run the same steps with the same options as a program that starts cold, see
 * `bubblewrap-wrapping.ts`; they wait at different points of it:
 *
 *     shell: cgroup, quota, stage | claim: user, bubblewrap with all namespaces and mounts, seccomp, program
 *     image: cgroup, quota, stage, user, bubblewrap with all namespaces and mounts | claim: seccomp, program
 *
 * Only trusted code waits: the staging script, or bubblewrap without capabilities. Nothing of the image has been executed.
 */

/** Where a program of a slot of kind `image` sees the file that started it. */
const startFile = "/run/keelson-start";

/** Maximum time for bubblewrap to set up its mounts, and maximum pause, after 1, 2, 4 ... ms, between looks at them. */
const maxMountMs = 10_000;
const maxPauseMs = 50;

/** Prepares programs in bubblewrap before they are known. */
export class BubblewrapSlots implements SlotWrapping {
  readonly kinds = hasStub() ? (["shell", "image"] as const) : (["shell"] as const);
  readonly #options: BubblewrapWrappingOptions;
  readonly #staging: Staging;

  constructor(options: BubblewrapWrappingOptions, staging: Staging) {
    this.#options = options;
    this.#staging = staging;
  }

  prepare(request: LaunchRequest, shape: SlotShape): Execution {
    const { folder } = request;
    const { bwrap, filter } = this.#options;
    createFiles(request, this.#options.binds);
    const stage = shape.kind === "shell" ? this.#prepareShell(request, shape) : this.#prepareImage(request);
    // A shell gets its command with its claim.
    const command = shape.kind === "shell" ? [] : bwrapCommand(bwrap, [startFile]);
    return { ...this.#staging.start(request, stage, command, shape.kind), opened: filesOf(folder, filter), cwd: folder.path };
  }

  async whenPrepared({ folder, deadlines }: LaunchRequest, { kind }: SlotShape, isAlive: () => boolean): Promise<void> {
    // A shell reports when everything that it prepares is done; bubblewrap waits without a report.
    if (kind !== "image") return;
    for (let waitedMs = 0, pauseMs = 1; waitedMs < maxMountMs; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
      if (hasMounted(statusFile(folder), readExit(folder).program?.pid)) return;
      if (!isAlive()) throw new StartFailure("could not prepare a slot: its shim has exited", 126);
      await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
      waitedMs += pauseMs;
    }
    throw new StartFailure(`could not prepare a slot: bubblewrap set up no mounts within ${maxMountMs} ms`, 126);
  }

  canRun(kind: SlotShape["kind"], spec: ProgramSpec): boolean {
    const root = spec.isolation?.root;
    try {
      const path = findExecutable(spec, undefined, spec.cwd ?? "/", root);
      // execvp(3) runs a file without either in a shell; a stub does not.
      return kind === "shell" || /^(?:\x7fELF|#!)/.test(readHead(root === undefined ? path : pathInRoot(root, path)));
    } catch {
      return false;
    }
  }

  bind(request: LaunchRequest, { command, path = "" }: Execution, shape: SlotShape): void {
    const { binds, bwrap, filter } = this.#options;
    const cwd = workingDirectory(request);
    if (shape.kind === "shell") {
      writeOptions(request, { cwd, binds, stage: shellStage(request, shape) }, filter);
      writeFileSync(claimFile(request.folder), setArguments(bwrapCommand(bwrap, command)));
    } else {
      const env = { ...environmentOf(request), PWD: cwd };
      claimStub(claimFile(request.folder), { path, argv: command, env, cwd });
    }
  }

  readonly wasUnreleased = ({ folder }: LaunchRequest): boolean =>
    /^unreleased$/m.test(readIfPresent(statusFile(folder))?.toString("latin1") ?? "") ||
    isUnbound(readIfPresent(claimFile(folder)));

  #prepareShell(request: LaunchRequest, shape: SlotShape): Stage {
    writeOptions(request, { cwd: "/", binds: [], stage: undefined }, undefined);
    writeFileSync(claimFile(request.folder), "", { mode: 0o600 });
    return shellStage(request, shape);
  }

  #prepareImage(request: LaunchRequest): Stage {
    const { folder, spec } = request;
    const { binds, filter } = this.#options;
    const claim = claimFile(folder);
    writeFileSync(claim, unclaimedStub());
    chmodSync(claim, 0o500);
    if (!this.#staging.canExecute(request)) throw new StartFailure(`could not prepare a slot: ${notExecutable(request)}`, 126);
    const { uid, gid } = privateUser(folder, spec.isolation);
    // It will contain the program's environment.
    chownSync(claim, uid, gid);
    const stage = stageOf(request, binds);
    if (stage === undefined) throw new StartFailure("could not prepare a slot: requires a private user", 126);
    const start = { source: claim, target: startFile };
    writeOptions(request, { cwd: workingDirectory(request), binds: [...binds, start], stage }, filter, ["--block-fd", "6"]);
    return stage;
  }
}

/** Whether the process that bubblewrap, the process `wrapper`, runs inside has all its mounts. */
function hasMounted(status: string, wrapper: number | undefined): boolean {
  const child = wrapper === undefined ? undefined : bubblewrapChild(status, wrapper);
  return child !== undefined && child > 0 && hasEnteredRoot(child);
}

/** The stage of a shell, with the same paths before and after its directory has moved. */
function shellStage({ folder }: LaunchRequest, { roots }: SlotShape): Stage {
  const stage = new Stage([folder.path, ...roots]);
  for (const source of [...roots, settingsFolder(folder), temporaryFolder(folder), folder.work]) stage.add(source);
  return stage;
}

/** Whether a slot has this claim and was never bound to a program. A program that started cold has no claim. */
const isUnbound = (claim: Buffer | undefined): boolean => claim !== undefined && (claim.length === 0 || isUnclaimed(claim));

/** The content of a file, if it exists. */
function readIfPresent(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/** The first bytes of a file. */
function readHead(path: string): string {
  const descriptor = openSync(path, "r");
  try {
    const head = Buffer.alloc(4);
    return head.toString("latin1", 0, readSync(descriptor, head));
  } finally {
    closeSync(descriptor);
  }
}
