import { mkdir, readdir, realpath, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../files/atomic-file.ts";
import type { Clock } from "@keelson/api-machinery/time";
import { Deadlines } from "./deadlines.ts";
import { ExecutionError } from "../driver.ts";
import type { Driver, ProgramSpec } from "../driver.ts";
import { describeError, errorCode } from "../files/file-error.ts";
import { lockFolder } from "../files/folder-lock.ts";
import type { Launcher } from "../process/launcher.ts";
import { readProgramFile, SupervisedProgram } from "./program.ts";
import type { Supervision } from "./program.ts";
import { programFolder } from "./program-folder.ts";
import type { ProgramFolder } from "./program-folder.ts";
import { parseRecord } from "./program-record.ts";
import { parseSpec, programIdPattern } from "./program-spec.ts";

/** What every driver is made from. */
export interface DriverOptions {
  /** Folder for the programs; made when it is not there. One driver at a time. */
  readonly dir: string;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Makes a driver of programs that `makeLauncher` starts. Throws `FolderInUse` and `FolderUnusable`. */
export async function createDriver(
  name: Driver["name"],
  options: DriverOptions,
  makeLauncher: (dir: string) => Launcher,
): Promise<Driver> {
  const { clock, random } = options;
  const trash = (dir: string): string => join(dir, ".trash");
  let dir = options.dir;
  try {
    await mkdir(dir, { recursive: true, mode: 0o711 });
    // The tags of processes follow from the path: another way to the same folder must not make other tags.
    dir = await realpath(dir);
    await mkdir(trash(dir), { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new ExecutionError("FolderUnusable", `Programs cannot be kept in ${dir}: ${describeError(error)}`, { cause: error });
  }
  const lock = await lockFolder(dir, random).catch((error: unknown) => {
    if (error instanceof ExecutionError) throw error;
    throw new ExecutionError("FolderUnusable", `Programs cannot be kept in ${dir}: ${describeError(error)}`, { cause: error });
  });

  const deadlines = new Deadlines(clock);
  const programs = new Map<string, SupervisedProgram>();
  const busy = new Set<Promise<unknown>>();
  const supervision: Supervision = {
    clock,
    deadlines,
    launcher: makeLauncher(dir),
    trash: trash(dir),
    forget: (id) => void programs.delete(id),
  };
  let closed = false;

  const driver: Driver = {
    name,
    async start(spec) {
      const parsed = parseSpec(spec);
      if (closed) throw new ExecutionError("Unsupported", `Program ${parsed.id} cannot be started: the driver is closed`);
      if (programs.has(parsed.id)) throw new ExecutionError("AlreadyExists", `There is a program ${parsed.id} already`);
      const folder = programFolder(dir, parsed.id);
      const program = new SupervisedProgram(parsed, folder, supervision);
      programs.set(parsed.id, program);
      const starting = (async () => {
        try {
          await makeFolder(folder);
          const written = writeSpec(folder, parsed);
          // It may fail before anybody waits for it.
          written.catch(() => {});
          await program.start(written);
        } catch (error) {
          programs.delete(parsed.id);
          if (!(error instanceof ExecutionError && error.code === "AlreadyExists")) {
            await rm(folder.path, { recursive: true, force: true });
          }
          throw error;
        }
      })();
      busy.add(starting);
      await starting.finally(() => busy.delete(starting));
      return program;
    },
    get: (id) => programs.get(id),
    list: () => [...programs.values()],
    async close() {
      if (closed) return;
      closed = true;
      await Promise.allSettled(busy);
      await Promise.all([...programs.values()].map((program) => program.detach()));
      deadlines.clear();
      supervision.launcher.close?.();
      await lock.release();
    },
  };

  try {
    await rm(trash(dir), { recursive: true, force: true });
    await mkdir(trash(dir), { mode: 0o700 });
    await supervision.launcher.sweepOrphans?.(dir, deadlines);
    for (const id of await readdir(dir)) {
      if (programIdPattern.test(id)) await openProgram(programFolder(dir, id), programs, supervision);
    }
  } catch (error) {
    await driver.close();
    throw new ExecutionError("FolderUnusable", `The programs in ${dir} cannot be read: ${describeError(error)}`, {
      cause: error,
    });
  }
  return driver;
}

async function makeFolder(folder: ProgramFolder): Promise<void> {
  try {
    await mkdir(folder.path, { mode: 0o711 });
  } catch (error) {
    if (errorCode(error) === "EEXIST") throw new ExecutionError("AlreadyExists", `There is a folder ${folder.path} already`);
    throw unwritable(folder, error);
  }
}

/** Writes a program's spec, which is on the disk when this resolves. */
async function writeSpec(folder: ProgramFolder, spec: ProgramSpec): Promise<void> {
  try {
    await writeFileAtomic(folder.spec, `${JSON.stringify(spec)}\n`, { durable: true });
  } catch (error) {
    throw unwritable(folder, error);
  }
}

function unwritable(folder: ProgramFolder, error: unknown): ExecutionError {
  const message = `Program ${folder.id} was not started: ${folder.path} cannot be written: ${describeError(error)}`;
  return new ExecutionError("FolderUnusable", message, { cause: error });
}

function tryParseSpec(text: string, id: string): ProgramSpec | undefined {
  try {
    const spec = parseSpec(JSON.parse(text));
    return spec.id === id ? spec : undefined;
  } catch {
    return undefined;
  }
}

/** Puts a damaged file aside, so that a person can look at it. */
async function quarantine(path: string): Promise<string> {
  const aside = `${path}.damaged`;
  await rename(path, aside);
  return aside;
}

/** Takes over one folder that an earlier driver left. */
async function openProgram(
  folder: ProgramFolder,
  programs: Map<string, SupervisedProgram>,
  supervision: Supervision,
): Promise<void> {
  const specText = await readProgramFile(folder.spec);
  const stateText = await readProgramFile(folder.state);
  if (specText === undefined && stateText === undefined) {
    // The driver died inside `start`, before the spec was there: it promised nothing yet, and let nothing run.
    await supervision.launcher.sweep(folder, supervision.deadlines);
    await rm(folder.path, { recursive: true, force: true });
    return;
  }
  const spec = specText === undefined ? undefined : tryParseSpec(specText, folder.id);
  const record = stateText === undefined ? { kind: "starting" as const } : parseRecord(stateText);
  const program = new SupervisedProgram(spec ?? { id: folder.id, command: ["(unknown)"] }, folder, supervision);
  programs.set(folder.id, program);
  if (spec === undefined) {
    const kept = specText === undefined ? "is missing" : `is damaged (kept as ${await quarantine(folder.spec)})`;
    await program.lose(`What the program was is unknown: its spec.json ${kept}`);
  } else if (record === undefined) {
    await program.lose(
      `How the program stood is unknown: its state.json is damaged (kept as ${await quarantine(folder.state)})`,
    );
  } else {
    await program.adopt(record);
  }
}
