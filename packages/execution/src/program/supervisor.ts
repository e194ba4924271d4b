import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, realpath, rename } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../files/atomic-file.ts";
import { openSealedText, sealText } from "../files/sealed-text.ts";
import type { Clock } from "@keelson/api-machinery/time";
import { Deadlines } from "./deadlines.ts";
import { type Driver, ExecutionError, type Program, type ProgramSpec } from "../driver.ts";
import { describeError, errorCode } from "../files/file-error.ts";
import { lockFolder } from "../files/folder-lock.ts";
import { removeTree } from "../files/remove-tree.ts";
import { LogRotations } from "../logs/rotate-log.ts";
import type { Launcher } from "../process/launcher.ts";
import { SupervisedProgram } from "./program.ts";
import type { Supervision } from "./supervision.ts";
import { discardFolder, openProgramFolder, programFolder } from "./files/program-folder.ts";
import type { ProgramFolder } from "./files/program-folder.ts";
import { parseRecord } from "./files/program-record.ts";
import { parseSpec, programIdPattern } from "./program-spec.ts";
import { Unmounter } from "./files/size-limit.ts";
import { type ReadySlot, warmFolder, WarmSlots } from "../warm/warm-slots.ts";

/** Options of every driver. */
export interface DriverOptions {
  /** Directory for the programs, created if missing. One driver at a time. */
  readonly dir: string;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Creates a driver whose programs are started by the launcher. Throws `FolderInUse` and `FolderUnusable`. */
export async function createDriver(
  name: Driver["name"],
  options: DriverOptions,
  createLauncher: (dir: string) => Launcher,
): Promise<Driver> {
  const { clock, random } = options;
  const trash = (dir: string): string => join(dir, ".trash");
  let dir = options.dir;
  try {
    await mkdir(dir, { recursive: true, mode: 0o711 });
    // Process tags derive from the path, so every supervisor must use the same path to the directory.
    dir = await realpath(dir);
    await mkdir(trash(dir), { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new ExecutionError("FolderUnusable", `cannot use ${dir} for programs: ${describeError(error)}`, { cause: error });
  }
  const lock = await lockFolder(dir, random).catch((error: unknown) => {
    if (error instanceof ExecutionError) throw error;
    throw new ExecutionError("FolderUnusable", `cannot use ${dir} for programs: ${describeError(error)}`, { cause: error });
  });

  const driver = new SupervisingDriver(name, dir, lock, {
    clock,
    random,
    launcher: createLauncher(dir),
    trash: trash(dir),
  });
  try {
    await driver.open();
  } catch (error) {
    await driver.close();
    throw new ExecutionError("FolderUnusable", `cannot read the programs in ${dir}: ${describeError(error)}`, {
      cause: error,
    });
  }
  return driver;
}

class SupervisingDriver implements Driver {
  readonly name: Driver["name"];
  readonly #dir: string;
  readonly #lock: Awaited<ReturnType<typeof lockFolder>>;
  readonly #supervision: Supervision;
  readonly #warm: WarmSlots;
  readonly #programs = new Map<string, SupervisedProgram>();
  /** Starts in progress. */
  readonly #starting = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(
    name: Driver["name"],
    dir: string,
    lock: Awaited<ReturnType<typeof lockFolder>>,
    { random, ...supervision }: Pick<Supervision, "clock" | "launcher" | "trash"> & Pick<DriverOptions, "random">,
  ) {
    this.name = name;
    this.#dir = dir;
    this.#lock = lock;
    this.#supervision = {
      ...supervision,
      deadlines: new Deadlines(supervision.clock),
      unmounter: new Unmounter(),
      rotations: new LogRotations(),
      forget: (id) => void this.#programs.delete(id),
    };
    this.#warm = new WarmSlots({ ...this.#supervision, dir: warmFolder(dir), random });
  }

  get warm(): WarmSlots | undefined {
    return (this.#supervision.launcher.slotKinds ?? []).length > 0 ? this.#warm : undefined;
  }

  /** Adopts the programs of earlier drivers. */
  async open(): Promise<void> {
    const { trash, launcher, deadlines } = this.#supervision;
    await removeTree(trash);
    await mkdir(trash, { mode: 0o700 });
    await launcher.sweepOrphans?.(this.#dir, deadlines);
    await this.#warm.sweep();
    for (const id of await readdir(this.#dir)) {
      if (programIdPattern.test(id)) await adoptProgram(openProgramFolder(this.#dir, id), this.#programs, this.#supervision);
    }
  }

  async start(spec: ProgramSpec): Promise<Program> {
    const parsed = parseSpec(spec);
    if (this.#isClosed) throw new ExecutionError("Unsupported", `cannot start program ${parsed.id}: the driver is closed`);
    if (this.#programs.has(parsed.id)) throw new ExecutionError("AlreadyExists", `program ${parsed.id} already exists`);
    const slot = this.#warm.take(parsed);
    const folder = programFolder(this.#dir, parsed.id, slot?.folder.tag);
    const program = new SupervisedProgram(parsed, folder, this.#supervision, slot?.shape.kind);
    this.#programs.set(parsed.id, program);
    const starting = this.#start(program, folder, slot);
    this.#starting.add(starting);
    await starting.finally(() => this.#starting.delete(starting));
    return program;
  }

  get(id: string): Program | undefined {
    return this.#programs.get(id);
  }

  list(): readonly Program[] {
    return [...this.#programs.values()];
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await Promise.allSettled([...this.#starting, this.#warm.close()]);
    await Promise.all([...this.#programs.values()].map((program) => program.detach()));
    this.#supervision.deadlines.clear();
    this.#supervision.launcher.close?.();
    await this.#lock.release();
  }

  async #start(program: SupervisedProgram, folder: ProgramFolder, slot: ReadySlot | undefined): Promise<void> {
    try {
      await (slot === undefined ? createFolder(folder) : moveFolder(slot, folder, this.#supervision));
      const written = writeSpec(folder, program.spec);
      // It may reject before it is awaited.
      written.catch(() => {});
      await program.start(written, slot?.prepared);
    } catch (error) {
      this.#programs.delete(program.id);
      if (!(error instanceof ExecutionError && error.code === "AlreadyExists")) {
        const { trash, clock, unmounter } = this.#supervision;
        await discardFolder(folder, trash, clock.now(), unmounter);
      }
      throw error;
    }
  }
}

/** Makes the directory of a slot that of a program. Discards the slot if that fails. */
async function moveFolder(
  { folder: from, prepared }: ReadySlot,
  folder: ProgramFolder,
  { trash, clock, unmounter }: Supervision,
): Promise<void> {
  try {
    // rename(2) would replace an empty directory.
    if (existsSync(folder.path)) throw new ExecutionError("AlreadyExists", `folder ${folder.path} already exists`);
    await rename(from.path, folder.path);
  } catch (error) {
    await prepared.abandon();
    await discardFolder(from, trash, clock.now(), unmounter);
    if (error instanceof ExecutionError) throw error;
    throw folderUnusable(folder, error);
  }
}

async function createFolder(folder: ProgramFolder): Promise<void> {
  try {
    await mkdir(folder.path, { mode: 0o711 });
  } catch (error) {
    if (errorCode(error) === "EEXIST") throw new ExecutionError("AlreadyExists", `folder ${folder.path} already exists`);
    throw folderUnusable(folder, error);
  }
}

/** Writes a program's spec durably. */
async function writeSpec(folder: ProgramFolder, spec: ProgramSpec): Promise<void> {
  try {
    await writeFileAtomic(folder.spec, sealText(JSON.stringify(spec)), { durable: true });
  } catch (error) {
    throw folderUnusable(folder, error);
  }
}

function folderUnusable(folder: ProgramFolder, error: unknown): ExecutionError {
  const message = `could not start program ${folder.id}: cannot write ${folder.path}: ${describeError(error)}`;
  return new ExecutionError("FolderUnusable", message, { cause: error });
}

function tryParseSpec(text: string, id: string): ProgramSpec | undefined {
  try {
    const spec = parseSpec(JSON.parse(openSealedText(text) ?? ""));
    return spec.id === id ? spec : undefined;
  } catch {
    return undefined;
  }
}

/** Renames a damaged file for later inspection. */
async function quarantine(path: string): Promise<string> {
  const aside = `${path}.damaged`;
  await rename(path, aside);
  return aside;
}

/** Adopts one directory of an earlier driver. */
async function adoptProgram(
  folder: ProgramFolder,
  programs: Map<string, SupervisedProgram>,
  supervision: Supervision,
): Promise<void> {
  const specText = await readProgramFile(folder.spec);
  const stateText = await readProgramFile(folder.state);
  if (specText === undefined && stateText === undefined) {
    // The driver died inside `start`, before the spec was written: nothing was acknowledged and nothing ran.
    await supervision.launcher.sweep(folder, supervision.deadlines);
    await discardFolder(folder, supervision.trash, supervision.clock.now(), supervision.unmounter);
    return;
  }
  const spec = specText === undefined ? undefined : tryParseSpec(specText, folder.id);
  const record = stateText === undefined ? { kind: "starting" as const } : parseRecord(stateText);
  const program = new SupervisedProgram(spec ?? { id: folder.id, command: ["(unknown)"] }, folder, supervision);
  programs.set(folder.id, program);
  if (spec === undefined) {
    const kept = specText === undefined ? "is missing" : `is damaged (kept as ${await quarantine(folder.spec)})`;
    await program.markLost(`spec.json ${kept}`);
  } else if (record === undefined) {
    await program.markLost(`state.json is damaged (kept as ${await quarantine(folder.state)})`);
  } else {
    await program.adopt(record);
  }
}

async function readProgramFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch {
    return undefined;
  }
}
