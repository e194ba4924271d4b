import { MpiError } from "./mpi-error.ts";

/** Supported MPI implementations. */
export type MpiImplementation = "OpenMPI" | "MPICH";

/** The launcher's task. */
export interface LaunchOrder {
  /** `Auto`: the implementation that the program is linked with. */
  readonly implementation: MpiImplementation | "Auto";
  /** Number of ranks. */
  readonly ranks: number;
  /** Maximum number of ranks per worker. Default 1. */
  readonly slots?: number;
  /** Whether the launcher's Pod also is worker 0. Default false. */
  readonly launcherIsWorker?: boolean;
  /** Host names of the workers. If set, `command` is a session: it starts mpiexec itself, with these hosts and `slots` ranks on each. */
  readonly hosts?: readonly string[];
  /** Whether the command of a session starts only when all workers have joined. Default false. */
  readonly waitsForWorkers?: boolean;
  /** The program and its arguments. They do not pass through a shell. */
  readonly command: readonly string[];
  /** Time until all workers must have joined. Unset: no limit. */
  readonly startDeadlineMs?: number;
  /** Whether rank 0 reads the launcher's standard input. Default false. */
  readonly stdin?: boolean;
  /** Whether every line of output starts with its rank. Default false. */
  readonly labelsOutput?: boolean;
  /** Command to run before the program, without a shell. The launch fails if it does. Default: none. */
  readonly before?: readonly string[];
}

/** Environment variables of a job's program, in every Pod. */
export const programVariables = {
  /** Number of the attempt, from 1. */
  attempt: "KEELSON_JOB_ATTEMPT",
  /** Directory of the job's checkpoints, which exists. Unset without `checkpoint`. */
  checkpointFolder: "KEELSON_JOB_CHECKPOINT_DIR",
} as const;

/** Environment variables of a Pod's program. */
export const podVariables = {
  /** A {@link LaunchOrder} as JSON. */
  order: "KEELSON_MPI_ORDER",
  /** Secret that the launcher and workers of a job share. */
  token: "KEELSON_MPI_TOKEN",
  /** Address of the Pod. */
  podIP: "KEELSON_MPI_POD_IP",
  /** Address of the launcher: `HOST:PORT`. */
  launcher: "KEELSON_MPI_LAUNCHER",
  /** Index of the worker, from 0. Kubernetes sets it in Pods of indexed Jobs. */
  index: "JOB_COMPLETION_INDEX",
  /** Number of workers outside the workers' Job, which come before its Pods: 1 if the launcher is a worker, otherwise unset. */
  indexOffset: "KEELSON_MPI_INDEX_OFFSET",
} as const;

/** Port of the launcher for its workers, on its Pod's address. */
export const rendezvousPort = 21_000;

/**
 * Encodes an order as the value of a variable. Kubernetes expands `$(NAME)` in values of variables; the encoding has no `$`, so every
 * argument arrives unchanged.
 */
export function formatOrder(order: LaunchOrder): string {
  return JSON.stringify(order).replaceAll("$", "\\u0024");
}

/** Environment of a launcher. */
export interface LauncherEnvironment {
  readonly order: LaunchOrder;
  readonly token: string;
  readonly podIP: string;
}

/** Environment of a worker. */
export interface WorkerEnvironment {
  readonly token: string;
  readonly index: number;
  readonly host: string;
  readonly port: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Parses a launcher's environment.
 *
 * **Errors**: {@link MpiError} `InvalidEnvironment`, which names the variable.
 */
export function launcherEnvironment(environment: Environment): LauncherEnvironment {
  return {
    order: parseOrder(variable(environment, podVariables.order)),
    token: variable(environment, podVariables.token),
    podIP: variable(environment, podVariables.podIP),
  };
}

/**
 * Parses a worker's environment.
 *
 * **Errors**: {@link MpiError} `InvalidEnvironment`, which names the variable.
 */
export function workerEnvironment(environment: Environment): WorkerEnvironment {
  const address = variable(environment, podVariables.launcher);
  const colon = address.lastIndexOf(":");
  const port = Number(address.slice(colon + 1));
  if (colon < 1 || !Number.isInteger(port) || port < 1 || port > 65_535)
    throw invalid(podVariables.launcher, `${JSON.stringify(address)} must be of the form HOST:PORT`);
  const index = variable(environment, podVariables.index);
  if (!/^\d{1,6}$/.test(index)) throw invalid(podVariables.index, `${JSON.stringify(index)} must be a number from 0`);
  return {
    token: variable(environment, podVariables.token),
    index: Number(index) + (environment[podVariables.indexOffset] === "1" ? 1 : 0),
    host: address.slice(0, colon).replace(/^\[(.*)\]$/, "$1"),
    port,
  };
}

/** The environment of a Pod's program without the variables of the launcher and worker. */
export function programEnvironment(environment: Environment): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment))
    if (value !== undefined && !name.startsWith("KEELSON_MPI_")) result[name] = value;
  return result;
}

function variable(environment: Environment, name: string): string {
  const value = environment[name];
  if (value === undefined || value === "") throw invalid(name, "not set; this program runs in Pods of a RhinoJob");
  return value;
}

function invalid(name: string, problem: string): MpiError {
  return new MpiError("InvalidEnvironment", `${name}: ${problem}`);
}

function parseOrder(text: string): LaunchOrder {
  const bad = (problem: string): MpiError => invalid(podVariables.order, problem);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw bad("is not JSON");
  }
  if (typeof parsed !== "object" || parsed === null) throw bad("is not an object");
  const {
    implementation,
    ranks,
    command,
    startDeadlineMs,
    stdin,
    slots,
    launcherIsWorker,
    hosts,
    waitsForWorkers,
    labelsOutput,
    before,
  } = parsed as Record<string, unknown>;
  if (implementation !== "OpenMPI" && implementation !== "MPICH" && implementation !== "Auto")
    throw bad(`implementation: ${JSON.stringify(implementation)} must be OpenMPI, MPICH or Auto`);
  if (typeof ranks !== "number" || !Number.isInteger(ranks) || ranks < (hosts === undefined ? 1 : 0))
    throw bad("ranks must be a number from 1");
  if (!Array.isArray(command) || command.length === 0 || !command.every((word) => typeof word === "string"))
    throw bad("command must be a list of strings");
  if (before !== undefined && (!Array.isArray(before) || !before.every((word) => typeof word === "string")))
    throw bad("before must be a list of strings");
  if (slots !== undefined && (typeof slots !== "number" || !Number.isInteger(slots) || slots < 1))
    throw bad("slots must be a number from 1");
  if (hosts !== undefined && (!Array.isArray(hosts) || !hosts.every((host) => typeof host === "string")))
    throw bad("hosts must be a list of strings");
  if (startDeadlineMs !== undefined && (typeof startDeadlineMs !== "number" || !(startDeadlineMs > 0)))
    throw bad("startDeadlineMs must be a number greater than 0");
  return {
    implementation,
    ranks,
    command: command as string[],
    ...(startDeadlineMs === undefined ? {} : { startDeadlineMs }),
    ...(stdin === true ? { stdin } : {}),
    ...(before === undefined ? {} : { before: before as string[] }),
    ...(labelsOutput === true ? { labelsOutput } : {}),
    ...(slots === undefined ? {} : { slots }),
    ...(launcherIsWorker === true ? { launcherIsWorker } : {}),
    ...(hosts === undefined ? {} : { hosts: hosts as string[] }),
    ...(waitsForWorkers === true ? { waitsForWorkers } : {}),
  };
}
