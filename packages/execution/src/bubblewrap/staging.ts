import { spawnSync } from "node:child_process";
import { chownSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import type { LaunchRequest } from "../process/launcher.ts";
import { hasStub } from "../stub/executable.ts";
import { temporaryFolder } from "./bubblewrap-options.ts";
import { privateUser, quotaScript, slotScript, type Stage, stageScript, withQuota } from "./private-user.ts";
import { ownMountCalls, quotaCalls, reportCalls, stageCalls, userCalls, writeCallProgram } from "./stage-calls.ts";

/*
 * The staged start of a program with a private user. Where possible, its own executable makes the system calls: a chain of shells,
 * mount(8), unshare(1) and setpriv(1) takes most of the time of a start.
 */

/** What is executed to stage a start. */
export interface StagedStart {
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
}

/** A program, or a slot of a kind. */
export type StagedKind = "program" | "shell" | "image";

/** Stages the starts of a driver's programs. */
export class Staging {
  /** Whether files of the programs' directories can be executed; undefined until it was tried. */
  #canExecute: boolean | undefined;

  /** Whether an executable in the directory of a program can be executed: its file system or processor may forbid it. */
  canExecute({ folder }: Pick<LaunchRequest, "folder">): boolean {
    if (this.#canExecute !== undefined) return this.#canExecute;
    const path = join(folder.path, "trial");
    writeCallProgram(path, []);
    this.#canExecute = hasStub() && spawnSync(path, ["/bin/true"], { stdio: "ignore" }).status === 0;
    rmSync(path);
    return this.#canExecute;
  }

  /** What is executed to start bubblewrap, or to prepare a slot, as the private user of the program, who owns its directories. */
  start(request: LaunchRequest, stage: Stage, bwrap: readonly string[], kind: StagedKind): StagedStart {
    const { folder, spec } = request;
    const user = privateUser(folder, spec.isolation);
    const folders = [folder.work, temporaryFolder(folder)];
    const sizeBytes = spec.limits?.diskBytes;
    if (sizeBytes === undefined) for (const path of folders) chownSync(path, user.uid, user.gid);
    // The command of a shell is known later.
    if (kind === "shell" || !this.canExecute(request)) return scripted(request, stage, bwrap, kind);
    const program = join(folder.path, "stage");
    const quota = sizeBytes === undefined ? [] : quotaCalls(user, sizeBytes, folders);
    const report = kind === "image" ? reportCalls : [];
    writeCallProgram(program, [...quota, ...ownMountCalls(), ...stageCalls(stage), ...report, ...userCalls(user)]);
    return { command: [program, ...bwrap], env: {} };
  }
}

/** A staged start by shell scripts. */
function scripted({ folder, spec }: LaunchRequest, stage: Stage, bwrap: readonly string[], kind: StagedKind): StagedStart {
  const user = privateUser(folder, spec.isolation);
  const command = stage.wrap(user, bwrap, join(folder.path, "stage-mounts"));
  const env = { KEELSON_STAGE_SCRIPT: kind === "program" ? stageScript : slotScript(kind) };
  const sizeBytes = spec.limits?.diskBytes;
  if (sizeBytes === undefined) return { command, env };
  return {
    command: withQuota(user, sizeBytes, [folder.work, temporaryFolder(folder)], command, join(folder.path, "quota-mounts")),
    env: { ...env, KEELSON_QUOTA_SCRIPT: quotaScript },
  };
}

/** Why a program in this directory cannot be executed. */
export const notExecutable = ({ folder }: Pick<LaunchRequest, "folder">): string =>
  `files in ${dirname(folder.path)} cannot be executed`;
