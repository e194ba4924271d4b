import { readFile } from "node:fs/promises";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { runAgent } from "../agent/run-agent.ts";

/** `keelson middleware agent`: runs in every middleware Pod and supervises its program. */
export const agentCommand: CommandDefinition = {
  name: "agent",
  isInternal: true,
  description: "supervise the program of a Pod and serve the controllers",
  flags: [
    { name: "engine", value: "NAME", description: "kind of program: redis (also for Valkey)", default: "redis" },
    { name: "program", value: "FILE", description: "executable of the program", default: "redis-server" },
    { name: "program-port", value: "PORT", description: "port of the program", default: "6379" },
    { name: "port", value: "PORT", description: "port of the agent's gRPC server", default: "50052" },
    { name: "sentinel-port", value: "PORT", description: "port of the Sentinel protocol", default: "26379" },
    { name: "config", value: "FILE", description: "file with the parameters as JSON", required: true },
    { name: "data-dir", value: "DIR", description: "mount path of the volume", required: true },
    { name: "pod-ip", value: "ADDRESS", description: "address to listen on", required: true, env: "POD_IP" },
    { name: "rebuild", value: "ID", description: "discard the data, once for every id", env: "KEELSON_REBUILD", default: "" },
    { name: "pod-name", value: "NAME", description: "name of the Pod", env: "POD_NAME", default: "" },
    { name: "token", value: "TOKEN", description: "token of the App; prefer the environment variable", env: "AGENT_TOKEN" },
    { name: "token-file", value: "FILE", description: "file that contains the token" },
    {
      name: "password",
      value: "PASSWORD",
      description: "password of the program; prefer the environment variable",
      env: "REDIS_PASSWORD",
    },
  ],
  run,
};

async function run({ flags, clock, log, signal, stderr }: CommandContext): Promise<number> {
  const text = (name: string): string => (typeof flags[name] === "string" ? flags[name] : "");
  const refuse = (message: string): number => {
    stderr.write(`${message}\n`);
    return 2;
  };
  if (text("engine") !== "redis") return refuse(`--engine: ${JSON.stringify(text("engine"))} must be redis`);
  for (const name of ["program-port", "port", "sentinel-port"]) {
    const port = Number(text(name));
    if (!(Number.isInteger(port) && port > 0 && port < 65_536)) return refuse(`--${name}: must be between 1 and 65535`);
  }
  for (const name of ["config", "data-dir", "pod-ip"]) if (text(name) === "") return refuse(`--${name}: required`);
  const token = text("token-file") === "" ? text("token") : (await readFile(text("token-file"), "utf8")).trim();
  if (token === "") return refuse("missing token: set AGENT_TOKEN in the environment, or pass --token-file");
  if (text("password") === "") return refuse("missing password: set REDIS_PASSWORD in the environment");
  try {
    return await runAgent({
      program: text("program"),
      host: text("pod-ip"),
      podName: text("pod-name"),
      rebuild: text("rebuild"),
      port: Number(text("program-port")),
      password: text("password"),
      configFile: text("config"),
      dataDir: text("data-dir"),
      agentPort: Number(text("port")),
      sentinelPort: Number(text("sentinel-port")),
      token,
      random: Math.random,
      clock,
      log,
      signal,
    });
  } catch (error) {
    log.error({ err: error }, "the agent could not start");
    return 1;
  }
}
