import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ApiRequest, Transport } from "@keelson/api-machinery/transport";
import {
  type Driver,
  type Exited,
  ExecutionError,
  type Limits,
  type Program,
  type ProgramSpec,
  type ProgramState,
} from "@keelson/execution";

/** One life of a supervisor. It dies at a crash point; after that none of its requests is executed or answered. */
export interface Life {
  /** Resolves when the supervisor has died. */
  readonly died: Promise<void>;
  /** Crash points passed so far. */
  readonly points: number;
  /** Runs an action with one crash point before it and one after. */
  pass<T>(action: () => Promise<T>): Promise<T>;
  readonly isDead: boolean;
}

/** Creates a life that ends at crash point `last`. Default: never. */
export function createLife(last = Number.POSITIVE_INFINITY): Life {
  let points = 0;
  let isDead = false;
  let die = (): void => {};
  const died = new Promise<void>((resolve) => (die = resolve));
  const point = async (): Promise<void> => {
    if (!isDead && ++points === last) {
      isDead = true;
      die();
    }
    // A dead supervisor never receives an answer.
    if (isDead) await new Promise(() => {});
  };
  return {
    died,
    get points() {
      return points;
    },
    get isDead() {
      return isDead;
    },
    async pass(action) {
      await point();
      const result = await action();
      await point();
      return result;
    },
  };
}

/** A transport for one life. Requests matched by `isCounted` are crash points; a dead supervisor gets no answers. */
export function transportOf(life: Life, transport: Transport, isCounted: (request: ApiRequest) => boolean): Transport {
  const alone = async <T>(action: () => Promise<T>): Promise<T> => {
    if (life.isDead) return new Promise(() => {});
    const result = await action();
    return life.isDead ? new Promise<T>(() => {}) : result;
  };
  return {
    request: (request) =>
      isCounted(request) ? life.pass(() => transport.request(request)) : alone(() => transport.request(request)),
    async watch(request) {
      const stream = await alone(() => transport.watch(request));
      return {
        close: () => stream.close(),
        async *[Symbol.asyncIterator]() {
          for await (const event of stream) {
            if (life.isDead) await new Promise(() => {});
            yield event;
          }
        },
      };
    },
    close: () => transport.close(),
  };
}

interface Running {
  readonly spec: ProgramSpec;
  state: ProgramState;
  limits: Limits;
  readonly exited: Promise<Exited>;
  end(exitCode: number, reason: Exited["reason"]): void;
}

/** A machine whose programs outlive their supervisors, like those of a real driver. */
export class CrashingMachine {
  readonly #dir: string;
  readonly #programs = new Map<string, Running>();
  /** Program ids in order of their start. */
  readonly starts: string[] = [];
  /** Violations: two programs of one container running at the same time. */
  readonly faults: string[] = [];
  /** Called after a program has started. */
  onStart: (id: string) => void = () => {};

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Ids of known programs, including exited ones. */
  get ids(): readonly string[] {
    return [...this.#programs.keys()];
  }

  /** The limits of the program of an attempt of a container. */
  limitsOf(container: string, attempt: number): Limits | undefined {
    const programs = [...this.#programs.values()];
    return programs.find(
      ({ spec: { metadata } }) => metadata?.["container"] === container && metadata["attempt"] === `${attempt}`,
    )?.limits;
  }

  /** Ends the running program of a container. */
  end(container: string, exitCode: number): void {
    for (const { spec, state, end } of this.#programs.values()) {
      if (spec.metadata?.["container"] === container && state.kind === "running")
        end(exitCode, exitCode === 0 ? "Completed" : "Error");
    }
  }

  /** A driver on this machine for one life. */
  driver(life: Life): Driver {
    const wrap = (id: string): Program => this.#handle(id, life);
    return {
      name: "bubblewrap",
      start: (spec) =>
        life.pass(() => {
          this.#start(spec);
          return Promise.resolve(wrap(spec.id));
        }),
      get: (id) => (this.#programs.has(id) ? wrap(id) : undefined),
      list: () => this.ids.map(wrap),
      close: () => Promise.resolve(),
    };
  }

  #start(spec: ProgramSpec): void {
    if (this.#programs.has(spec.id)) throw new ExecutionError("AlreadyExists", `There is a program ${spec.id} already`);
    const container = spec.metadata?.["container"];
    for (const { spec: other, state } of this.#programs.values()) {
      if (state.kind === "running" && other.metadata?.["container"] === container)
        this.faults.push(`${other.id} and ${spec.id}`);
    }
    this.starts.push(spec.id);
    mkdirSync(dirname(this.#log(spec.id)), { recursive: true });
    writeFileSync(this.#log(spec.id), "");
    let resolveExit: (exit: Exited) => void = () => {};
    const exited = new Promise<Exited>((resolve) => (resolveExit = resolve));
    const startedAt = Date.now();
    const running: Running = {
      spec,
      state: { kind: "running", pid: 1, startedAt },
      limits: spec.limits ?? {},
      exited,
      end(exitCode, reason) {
        if (running.state.kind === "exited") return;
        running.state = { kind: "exited", reason, message: "", exitCode, startedAt, finishedAt: Date.now() };
        resolveExit(running.state);
      },
    };
    this.#programs.set(spec.id, running);
    this.onStart(spec.id);
  }

  #log(id: string): string {
    return join(this.#dir, id, "stdout.log");
  }

  #handle(id: string, life: Life): Program {
    const running = this.#programs.get(id);
    if (running === undefined) throw new TypeError(`program ${id} not found`);
    const alone = async (): Promise<Exited> => {
      const exit = await running.exited;
      return life.isDead ? new Promise(() => {}) : exit;
    };
    const none = (): never => {
      throw new ExecutionError("Unsupported", "not supported by this test driver");
    };
    return {
      id,
      spec: running.spec,
      startKind: "cold",
      get state() {
        return running.state;
      },
      isPaused: false,
      logs: { stdout: this.#log(id), stderr: this.#log(id) },
      limits: { applied: running.limits },
      exited: alone,
      onExit: (listener) => {
        let isWanted = true;
        void alone().then(() => isWanted && listener());
        return () => {
          isWanted = false;
        };
      },
      cgroupEntries: [],
      signal: (signal) => {
        if (!life.isDead && signal === "SIGKILL") running.end(137, "Error");
      },
      stop: async () => {
        await life.pass(() => Promise.resolve(running.end(143, "Stopped")));
        return alone();
      },
      stats: () => Promise.resolve({ cpuMillis: 0, memoryBytes: 0, pids: 0 }),
      setLimits: (limits) =>
        life.pass(() => {
          if (running.state.kind !== "running") throw new ExecutionError("NotRunning", `program ${id} is not running`);
          running.limits = { ...running.limits, ...limits };
          return Promise.resolve();
        }),
      pause: none,
      resume: none,
      openInput: none,
      resize: () => Promise.resolve(),
      exec: none,
      remove: () =>
        life.pass(() => {
          if (running.state.kind !== "exited") throw new ExecutionError("NotEnded", `Program ${id} has not ended`);
          this.#programs.delete(id);
          return Promise.resolve();
        }),
    };
  }
}
