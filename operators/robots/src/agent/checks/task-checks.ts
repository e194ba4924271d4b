import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { AgentPolicy } from "../policy/agent-policy.ts";
import { programProblem } from "../policy/robot-policy.ts";
import { durationMs } from "../order-lifetime.ts";
import { InvalidField, own, text } from "../tasks/task-fields.ts";

/** Result of a check. As in Consul, a warning is neither healthy nor, with `ignoreWarnings`, a reason to restart. */
export type CheckStatus = "passing" | "warning" | "critical";

/** A health check of a task's program, validated. */
export interface TaskCheck {
  /** For messages. */
  readonly name: string;
  readonly target: CheckTarget;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Status before the first result. Unset: unknown. */
  readonly initialStatus?: CheckStatus;
  readonly restart?: CheckRestart;
}

/** What a check asks. `port` is the label of a port of the task, or a number. */
export type CheckTarget =
  | { readonly type: "http"; readonly port: string; readonly path: string; readonly isSecure: boolean }
  | { readonly type: "tcp" | "grpc"; readonly port: string }
  | { readonly type: "script"; readonly command: readonly [string, ...string[]] };

/** When failures of a check restart the program. */
export interface CheckRestart {
  /** Number of failures in a row. */
  readonly limit: number;
  /** Time after the start of the program in which failures do not count. */
  readonly graceMs: number;
  readonly ignoresWarnings: boolean;
}

/** Maximum number of checks of a task. */
const maxChecks = 8;
const maxPathLength = 1024;
const [defaultIntervalMs, defaultTimeoutMs, minMs] = [10_000, 2_000, 1_000];

/**
 * Reads the checks of a task's services.
 *
 * **Errors**: throws {@link InvalidField} for one that is invalid or that the robot's policy forbids.
 */
export function readChecks(spec: JsonObject, policy: AgentPolicy): readonly TaskCheck[] {
  const checks = objectsIn(own(spec, "services"), "spec.services").flatMap(({ object: service, path }) =>
    objectsIn(own(service, "checks"), `${path}.checks`).map(({ object, path: at }) => readCheck(object, service, at)),
  );
  if (checks.length > maxChecks) throw new InvalidField(`spec.services: must have at most ${maxChecks} checks`);
  const problem = checksProblem(policy, checks) ?? networkProblem(policy, spec, checks);
  if (problem !== undefined) throw new InvalidField(problem);
  return checks;
}

/** Why the robot's policy forbids a check; undefined if it forbids none. */
export function checksProblem({ commands, checks: mayConnect }: AgentPolicy, checks: readonly TaskCheck[]): string | undefined {
  for (const { name, target } of checks) {
    const problem =
      target.type === "script"
        ? // The user is that of the task, which the policy has allowed.
          programProblem(commands === undefined ? {} : { commands }, { command: target.command[0], user: undefined })
        : mayConnect === false
          ? "the robot's policy allows script checks only"
          : undefined;
    if (problem !== undefined) return `spec.services: check ${name}: ${problem.replace(/^spec\.config: /, "")}`;
  }
  return undefined;
}

/** The agent connects from the robot: it cannot reach a program with its own network, but could reach another one. */
function networkProblem(
  { isolation, docker }: AgentPolicy,
  spec: JsonObject,
  checks: readonly TaskCheck[],
): string | undefined {
  const driver = own(spec, "driver");
  const container = own(spec, "config");
  const mode = isJsonObject(container) && isJsonObject(container.dockerConfig) ? container.dockerConfig.networkMode : undefined;
  const isApart =
    driver === "docker"
      ? docker?.network === "none" || mode === "none"
      : driver !== "raw_exec" && isolation?.network === "none";
  const check = checks.find(({ target }) => target.type !== "script");
  if (!isApart || check === undefined) return undefined;
  return `spec.services: check ${check.name}: the program does not have the robot's network; use a script check`;
}

function readCheck(check: JsonObject, service: JsonObject, path: string): TaskCheck {
  const initial = own(check, "initialStatus");
  const limited = (field: string, fallback: number): number => Math.max(durationMs(check, field) ?? fallback, minMs);
  return {
    name: (text(check, "name", path) ?? text(service, "name", path) ?? path).slice(0, 64),
    target: readTarget(check, service, path),
    intervalMs: limited("interval", defaultIntervalMs),
    timeoutMs: limited("timeout", defaultTimeoutMs),
    ...(initial === "passing" || initial === "warning" || initial === "critical" ? { initialStatus: initial } : {}),
    ...restartOf(own(check, "checkRestart")),
  };
}

function readTarget(check: JsonObject, service: JsonObject, path: string): CheckTarget {
  const type = own(check, "type");
  if (type === "script") {
    const [command, args] = [text(check, "command", path), own(check, "args") ?? []];
    if (command === undefined || command === "") throw new InvalidField(`${path}.command: required by a script check`);
    if (!Array.isArray(args) || !args.every((each) => typeof each === "string")) {
      throw new InvalidField(`${path}.args must be a list of strings`);
    }
    if ([command, ...args].some((each) => each.includes("\0"))) throw new InvalidField(`${path}: contains a NUL character`);
    return { type, command: [command, ...args] };
  }
  const port = text(check, "portLabel", path) ?? text(service, "portLabel", path) ?? "";
  if (type === "tcp" || type === "grpc") return { type, port };
  if (type !== "http") throw new InvalidField(`${path}.type: ${JSON.stringify(type)} must be http, tcp, script or grpc`);
  const target = text(check, "path", path) ?? "/";
  // A line break would end the request line.
  if (!/^\/[!-~]*$/.test(target) || target.length > maxPathLength) {
    throw new InvalidField(`${path}.path: ${JSON.stringify(target)} must begin with / and have no spaces`);
  }
  return { type, port, path: target, isSecure: own(check, "protocol") === "https" };
}

function restartOf(value: unknown): { readonly restart?: CheckRestart } {
  if (!isJsonObject(value)) return {};
  const limit = own(value, "limit");
  if (typeof limit !== "number" || !Number.isInteger(limit) || limit < 1) return {};
  const restart = {
    limit,
    graceMs: durationMs(value, "grace") ?? 1_000,
    ignoresWarnings: own(value, "ignoreWarnings") === true,
  };
  return { restart };
}

function objectsIn(value: unknown, path: string): readonly { readonly object: JsonObject; readonly path: string }[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every((each) => isJsonObject(each)))
    throw new InvalidField(`${path} must be a list of objects`);
  return value.map((object, index) => ({ object, path: `${path}[${index}]` }));
}
