/** Which MPI starts the program; `Auto`: the one that the program is linked with. */
export type MpiImplementation = "OpenMPI" | "MPICH";

/** What a launcher is to run. */
export interface LaunchOrder {
  readonly implementation: MpiImplementation | "Auto";
  /** One worker a rank. */
  readonly ranks: number;
  /** The program and its arguments; no shell ever sees them. */
  readonly command: readonly string[];
  /** Ends a launcher that not all workers have joined after so long. Absent: it waits. */
  readonly startDeadlineMs?: number;
}

/** Names of the variables that a Pod's program is told its part by. */
export const podVariables = {
  /** A {@link LaunchOrder} as JSON. */
  order: "KEELSON_MPI_ORDER",
  /** The secret that launcher and workers of one job share. */
  token: "KEELSON_MPI_TOKEN",
  /** Address of the Pod. */
  podIP: "KEELSON_MPI_POD_IP",
  /** Where workers find the launcher: `HOST:PORT`. */
  launcher: "KEELSON_MPI_LAUNCHER",
  /** Which worker it is, from 0; Kubernetes sets it for Pods of indexed Jobs. */
  index: "JOB_COMPLETION_INDEX",
} as const;

/** The port on which a launcher waits for its workers, on its Pod's address. */
export const rendezvousPort = 21_000;

/** A Pod's program was started with something missing or wrong. */
export class PodEnvironmentError extends Error {
  override readonly name = "PodEnvironmentError";
  readonly code = "BadEnvironment";
}

/**
 * The order as the value of a variable. Kubernetes replaces `$(NAME)` in values of variables; here there is no `$`, so every
 * argument arrives as it was written.
 */
export function formatOrder(order: LaunchOrder): string {
  return JSON.stringify(order).replaceAll("$", "\\u0024");
}

/** What a launcher is told. */
export interface LauncherEnvironment {
  readonly order: LaunchOrder;
  readonly token: string;
  readonly podIP: string;
}

/** What a worker is told. */
export interface WorkerEnvironment {
  readonly token: string;
  readonly index: number;
  readonly host: string;
  readonly port: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads what a launcher is told.
 *
 * **Errors**: a {@link PodEnvironmentError} that names the variable.
 */
export function launcherEnvironment(environment: Environment): LauncherEnvironment {
  return {
    order: parseOrder(variable(environment, podVariables.order)),
    token: variable(environment, podVariables.token),
    podIP: variable(environment, podVariables.podIP),
  };
}

/**
 * Reads what a worker is told.
 *
 * **Errors**: a {@link PodEnvironmentError} that names the variable.
 */
export function workerEnvironment(environment: Environment): WorkerEnvironment {
  const address = variable(environment, podVariables.launcher);
  const colon = address.lastIndexOf(":");
  const port = Number(address.slice(colon + 1));
  if (colon < 1 || !Number.isInteger(port) || port < 1 || port > 65_535)
    throw new PodEnvironmentError(`${podVariables.launcher}: ${JSON.stringify(address)} has to be HOST:PORT`);
  const index = variable(environment, podVariables.index);
  if (!/^\d{1,6}$/.test(index))
    throw new PodEnvironmentError(`${podVariables.index}: ${JSON.stringify(index)} has to be a number from 0`);
  return {
    token: variable(environment, podVariables.token),
    index: Number(index),
    host: address.slice(0, colon).replace(/^\[(.*)\]$/, "$1"),
    port,
  };
}

/** The environment for what a Pod's program starts: its own without what only launcher and worker have to know. */
export function programEnvironment(environment: Environment): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment))
    if (value !== undefined && !name.startsWith("KEELSON_MPI_")) result[name] = value;
  return result;
}

function variable(environment: Environment, name: string): string {
  const value = environment[name];
  if (value === undefined || value === "")
    throw new PodEnvironmentError(`${name} is not set: this program runs in Pods of a RhinoJob`);
  return value;
}

function parseOrder(text: string): LaunchOrder {
  const bad = (what: string): PodEnvironmentError => new PodEnvironmentError(`${podVariables.order}: ${what}`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw bad("is not JSON");
  }
  if (typeof parsed !== "object" || parsed === null) throw bad("is not an object");
  const { implementation, ranks, command, startDeadlineMs } = parsed as Record<string, unknown>;
  if (implementation !== "OpenMPI" && implementation !== "MPICH" && implementation !== "Auto")
    throw bad(`implementation: ${JSON.stringify(implementation)} is none of OpenMPI, MPICH, Auto`);
  if (typeof ranks !== "number" || !Number.isInteger(ranks) || ranks < 1) throw bad("ranks: has to be a number from 1");
  if (!Array.isArray(command) || command.length === 0 || !command.every((word) => typeof word === "string"))
    throw bad("command: has to be a list of words");
  if (startDeadlineMs !== undefined && (typeof startDeadlineMs !== "number" || !(startDeadlineMs > 0)))
    throw bad("startDeadlineMs: has to be a number over 0");
  return { implementation, ranks, command: command as string[], ...(startDeadlineMs === undefined ? {} : { startDeadlineMs }) };
}
