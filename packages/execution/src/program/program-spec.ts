import { constants } from "node:os";
import { isAbsolute } from "node:path";
import { ExecutionError } from "../driver.ts";
import type { ExecSpec, ProgramSpec } from "../driver.ts";
import { isolationProblem } from "../isolation.ts";
import { argumentSizeProblem } from "./limits/argument-size.ts";

/** PATH of a program whose `env` has none. */
export const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Default of `ProgramSpec.killGraceMs`. */
export const defaultKillGraceMs = 5000;

/** Default of `ProgramSpec.logRotation`. */
export const defaultLogRotation = { maxBytes: 10 * 1024 * 1024, maxFiles: 3 } as const;

/** Valid program ids. */
export const programIdPattern = /^[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?$/;

/** Whether `name` is a signal of this system. */
export function isSignal(name: unknown): name is NodeJS.Signals {
  return typeof name === "string" && Object.hasOwn(constants.signals, name);
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isText = (value: unknown): value is string => typeof value === "string" && !value.includes("\0");

const badTerminal = "terminal: columns and rows must be whole numbers from 0 to 65535";

function isTerminalSize(value: unknown): boolean {
  const isSize = (each: unknown): boolean => Number.isInteger(each) && Number(each) >= 0 && Number(each) <= 0xffff;
  return isRecord(value) && isSize(value.columns) && isSize(value.rows);
}

function problemOf(spec: Record<string, unknown>): string | undefined {
  const { id, command, env, cwd, user, limits, logRotation, timeoutMs, killSignal, killGraceMs, metadata } = spec;
  const { input, terminal } = spec;
  const show = (value: unknown): string => JSON.stringify(value) ?? String(value);
  const isCount = (value: unknown, min: number): boolean =>
    value === undefined || (typeof value === "number" && Number.isSafeInteger(value) && value >= min);
  const isStrings = (value: unknown): boolean => isRecord(value) && Object.values(value).every(isText);

  if (typeof id !== "string" || !programIdPattern.test(id)) return `id: ${show(id)} must match ${programIdPattern.source}`;
  if (!Array.isArray(command) || command.length === 0) return "command: must name a program";
  const bad = command.findIndex((argument) => !isText(argument));
  if (bad >= 0) return `command[${bad}]: must be a string without NUL characters`;
  if (command[0] === "") return "command[0]: must not be empty";
  if (env !== undefined && !isStrings(env)) return "env: must map names to strings without NUL characters";
  for (const name of Object.keys(env ?? {})) {
    if (name === "" || name.includes("=") || name.includes("\0")) return `env: ${show(name)} is not a valid variable name`;
  }
  const sizeProblem = argumentSizeProblem(command.map(String), (env ?? {}) as Readonly<Record<string, string>>);
  if (sizeProblem !== undefined) return sizeProblem;
  if (cwd !== undefined && !(isText(cwd) && isAbsolute(cwd))) return `cwd: ${show(cwd)} must be an absolute path`;
  if (user !== undefined && !(isText(user) && user !== "")) return "user: must be a name, a uid or uid:gid";
  if (limits !== undefined && !isRecord(limits)) return "limits: must be an object";
  if (limits !== undefined) {
    for (const key of ["cpuMillis", "memoryBytes", "pids", "diskBytes"]) {
      if (!isCount(limits[key], 1)) return `limits.${key}: ${show(limits[key])} must be a positive integer`;
    }
  }
  const { cpuShares } = limits ?? {};
  if (!isCount(cpuShares, 2) || Number(cpuShares ?? 2) > 262_144)
    return "limits.cpuShares: must be an integer from 2 to 262144";
  const { oomScoreAdjustment: score } = spec;
  if (!isCount(score, -1000) || Number(score ?? 0) > 1000) return "oomScoreAdjustment: must be an integer from -1000 to 1000";
  if (logRotation !== undefined) {
    if (!isRecord(logRotation)) return "logRotation: must be an object";
    if (logRotation.maxBytes === undefined || !isCount(logRotation.maxBytes, 1))
      return "logRotation.maxBytes: must be a positive integer";
    if (logRotation.maxFiles === undefined || !isCount(logRotation.maxFiles, 1))
      return "logRotation.maxFiles: must be a positive integer";
  }
  if (spec.mergeOutput !== undefined && typeof spec.mergeOutput !== "boolean") return "mergeOutput: must be true or false";
  if (!isCount(timeoutMs, 1)) return `timeoutMs: ${show(timeoutMs)} must be a positive integer`;
  if (!isCount(killGraceMs, 0)) return `killGraceMs: ${show(killGraceMs)} must be a non-negative integer`;
  if (killSignal !== undefined && !isSignal(killSignal)) return `killSignal: ${show(killSignal)} is not a known signal`;
  if (input !== undefined && input !== "held" && input !== "once") return `input: ${show(input)} must be held or once`;
  if (terminal !== undefined && !isTerminalSize(terminal)) return badTerminal;
  const problem = isolationProblem(spec.isolation);
  if (problem !== undefined) return problem;
  if (metadata !== undefined && !isStrings(metadata)) return "metadata: must map names to text";
  return undefined;
}

/** Validates a command to run alongside a program. Throws `InvalidSpec` with the field's name. */
export function checkExec(spec: ExecSpec): void {
  const { command, env, terminal, cwd, user } = spec;
  const problem = problemOf({ id: "exec", command, env, terminal, cwd, user });
  if (problem !== undefined) throw new ExecutionError("InvalidSpec", `invalid command: ${problem}`);
}

/** Validates and copies a spec from a caller or a file. Throws `InvalidSpec` with the field's name. */
export function parseSpec(value: unknown): ProgramSpec {
  const problem = isRecord(value) ? problemOf(value) : "must be an object";
  if (problem !== undefined) throw new ExecutionError("InvalidSpec", `invalid program: ${problem}`);
  // Validated field by field above; the copy isolates a running program from later changes by the caller.
  return structuredClone(value) as ProgramSpec;
}
