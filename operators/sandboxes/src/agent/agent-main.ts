import { systemClock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { closeInheritedDescriptors } from "@keelson/execution/descriptors";
import { agentSettings } from "./agent-settings.ts";
import { runAgent } from "./run-agent.ts";

/* Runs an agent, configured by the environment of its Pod. */

closeInheritedDescriptors();

const say = (level: string, fields: object, message: string): void =>
  void process.stderr.write(`${JSON.stringify({ level, time: new Date().toISOString(), message, ...readable(fields) })}\n`);

/** JSON omits the fields of errors. */
const readable = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, value instanceof Error ? value.message : value]));

const log: Logger = {
  debug: () => {},
  info: (fields, message) => say("info", fields, message),
  warn: (fields, message) => say("warn", fields, message),
  error: (fields, message) => say("error", fields, message),
  child: () => log,
};

const stopping = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => stopping.abort());
try {
  const settings = agentSettings(process.env);
  // No longer needed; keeps the key out of the environment.
  delete process.env.AGENT_TOKEN;
  const onReady = (url: string): void => log.info({ url }, "agent listening");
  await runAgent({ ...settings, clock: systemClock, log, onReady }, stopping.signal);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
