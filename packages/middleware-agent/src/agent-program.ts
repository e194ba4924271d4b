import { parseArgs } from "node:util";
import { systemClock } from "@keelson/api-machinery/time";
import { type Logger, silentLogger } from "@keelson/controller";
import type { CommandDefinition } from "@keelson/operator";
import { createAgentCommand } from "./agent-command.ts";
import type { EngineDefinition } from "./engine-definition.ts";

/** Runs the agent of a plugin as a program: with the flags of `argv`, until SIGTERM. Resolves to the exit code. */
export function runAgentProgram(
  engines: readonly [EngineDefinition, ...EngineDefinition[]],
  argv: readonly string[] = process.argv.slice(2),
): Promise<number> {
  return runAsProgram(createAgentCommand(engines), argv);
}

/** Runs a command that needs no cluster as a program, without the `keelson` command. It logs lines of JSON to standard error. */
export async function runAsProgram(command: CommandDefinition, argv: readonly string[]): Promise<number> {
  const options = Object.fromEntries((command.flags ?? []).map((flag) => [flag.name, { type: "string" as const }]));
  const { values } = parseArgs({ args: [...argv], options, strict: true });
  const flags = Object.fromEntries(
    (command.flags ?? []).map((flag) => [
      flag.name,
      values[flag.name] ?? (flag.env === undefined ? undefined : process.env[flag.env]) ?? flag.default,
    ]),
  );
  const ending = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => ending.abort());
  return command.run({
    args: [],
    flags,
    stdout: process.stdout,
    stderr: process.stderr,
    clock: systemClock,
    log: createLogger(),
    signal: ending.signal,
    client: () => Promise.reject(new TypeError("the agent has no API client")),
  });
}

function createLogger(): Logger {
  const line =
    (level: string) =>
    (fields: object | string, message?: string): void => {
      const error = typeof fields === "object" && "err" in fields ? String(fields.err) : undefined;
      process.stderr.write(
        `${JSON.stringify({ level, ...(typeof fields === "object" ? fields : {}), ...(error ? { err: error } : {}), msg: message ?? fields })}\n`,
      );
    };
  const log: Logger = {
    ...silentLogger,
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
    child: () => log,
  };
  return log;
}
