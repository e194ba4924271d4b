import { type Driver, ExecutionError, type Program, type ProgramSpec, readLogTail } from "@keelson/execution";
import { RobotsError } from "../../robots-error.ts";
import type { InitOrder } from "./init-order.ts";
import type { TaskOrder } from "./task-order.ts";
import { programId, type ProgramName, programSpecOf } from "./task-program.ts";

/** End of an init task's standard error in the message about its failure. */
const maxErrorBytes = 512;

/** Options of {@link InitTasks}. */
export interface InitTasksOptions {
  readonly driver: Pick<Driver, "start" | "list">;
  /** Has the lease of a task apply to a program alongside its own. */
  readonly guard: (name: ProgramName, program: Program) => Promise<void>;
  /** Called when a program was removed. */
  readonly forget: (id: string) => Promise<void>;
}

/**
 * Runs the init tasks of a task one after the other before its program. Daemons among them keep running until the program has ended. After a
 * restart of the agent during this, all of them run again.
 */
export class InitTasks {
  readonly #options: InitTasksOptions;

  constructor(options: InitTasksOptions) {
    this.#options = options;
  }

  /** Resolves when all that are not daemons have succeeded. **Errors**: {@link RobotsError} `InitFailed`, and the reason of `signal`. */
  async run(name: ProgramName, order: TaskOrder, dir: string, signal: AbortSignal): Promise<void> {
    const { uid } = name;
    // Those of an earlier agent.
    await this.stop(uid);
    try {
      for (const [index, init] of (order.init ?? []).entries()) {
        signal.throwIfAborted();
        const program = await this.#start(name, specOf(name, order, { dir, init, index }));
        if (!init.isDaemon) await completed(init, program, signal);
      }
    } catch (error) {
      await this.stop(uid);
      throw error instanceof ExecutionError ? new RobotsError("InitFailed", error.message, { cause: error }) : error;
    }
  }

  /** Stops and removes what is left of a task's init tasks. */
  async stop(uid: string): Promise<void> {
    const { driver, forget } = this.#options;
    const programs = initProgramsOf(driver, uid);
    await Promise.all(
      programs.map(async (program) => {
        await program.stop();
        await forget(program.id);
        await program.remove();
      }),
    );
  }

  async #start(name: ProgramName, spec: ProgramSpec): Promise<Program> {
    const { driver, guard } = this.#options;
    const program = await driver.start(spec);
    await guard(name, program);
    return program;
  }
}

/** The programs of a task's init tasks. */
export function initProgramsOf(driver: Pick<Driver, "list">, uid: string): readonly Program[] {
  return driver.list().filter(({ spec: { metadata } }) => metadata?.uid === uid && metadata.init !== undefined);
}

function specOf(
  name: ProgramName,
  order: TaskOrder,
  { dir, init, index }: { readonly dir: string; readonly init: InitOrder; readonly index: number },
): ProgramSpec {
  const { timeoutMs: _, container: _container, devices: _devices, ...rest } = order;
  const { command, env, timeoutMs, user } = init;
  const own = {
    command,
    env: { ...order.env, ...env },
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(user !== undefined && { user }),
  };
  const spec = programSpecOf(name, { ...rest, ...own }, { dir });
  return {
    ...spec,
    id: `${programId(name.uid, name.attempt, name.run)}.init${index}`,
    metadata: { ...spec.metadata, init: init.name },
  };
}

async function completed(init: InitOrder, program: Program, signal: AbortSignal): Promise<void> {
  const stop = (): void => void program.stop();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    const { reason, message } = await program.exited();
    signal.throwIfAborted();
    if (reason === "Completed") return;
    const error = (await readLogTail(program.logs.stderr, maxErrorBytes)).trim();
    throw new RobotsError("InitFailed", `init task ${init.name}: ${message}${error === "" ? "" : `: ${error}`}`);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
