#!/usr/bin/env node
import { parseArgs } from "node:util";
import { systemClock } from "@keelson/api-machinery/time";
import { type Logger, silentLogger } from "@keelson/controller";
import { agentCommand } from "../commands/agent.ts";
import { transferCommand } from "../commands/transfer.ts";

/*
 * A standalone agent, for images without the `keelson` command; with the argument `transfer` the transfer of a backup.
 */

const isTransfer = process.argv[2] === "transfer";
const command = isTransfer ? transferCommand : agentCommand;
const options = Object.fromEntries((command.flags ?? []).map((flag) => [flag.name, { type: "string" as const }]));
const { values } = parseArgs({ args: process.argv.slice(isTransfer ? 3 : 2), options, strict: true });
const flags = Object.fromEntries(
  (command.flags ?? []).map((flag) => [
    flag.name,
    values[flag.name] ?? (flag.env === undefined ? undefined : process.env[flag.env]) ?? flag.default,
  ]),
);
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
} as Logger;
const ending = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => ending.abort());
process.exitCode = await command.run({
  args: [],
  flags,
  stdout: process.stdout,
  stderr: process.stderr,
  clock: systemClock,
  log,
  signal: ending.signal,
  client: () => Promise.reject(new TypeError("the agent has no API client")),
});
