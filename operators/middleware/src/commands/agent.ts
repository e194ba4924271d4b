import { readFile } from "node:fs/promises";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { runAgent } from "../agent/run-agent.ts";

/** `keelson middleware agent`: what runs in every Pod of middleware, above its program. */
export const agentCommand: CommandDefinition = {
  name: "agent",
  isInternal: true,
  description: "run in a Pod: start its program and carry out what the controllers ask for",
  flags: [
    { name: "engine", value: "NAME", description: "kind of program: redis (also for Valkey)", default: "redis" },
    { name: "program", value: "FILE", description: "the program", default: "redis-server" },
    { name: "program-port", value: "PORT", description: "port of the program", default: "6379" },
    { name: "port", value: "PORT", description: "port of the agent's gRPC server", default: "50052" },
    { name: "config", value: "FILE", description: "the parameters, as JSON", required: true },
    { name: "data-dir", value: "DIR", description: "the volume", required: true },
    { name: "pod-ip", value: "ADDRESS", description: "address to listen on, and nowhere else", required: true, env: "POD_IP" },
    { name: "token", value: "TOKEN", description: "token of the App; better give it in the environment", env: "AGENT_TOKEN" },
    { name: "token-file", value: "FILE", description: "file with the token" },
    {
      name: "password",
      value: "PASSWORD",
      description: "password of the program; better give it in the environment",
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
  if (text("engine") !== "redis") return refuse(`--engine: ${JSON.stringify(text("engine"))} has to be redis`);
  for (const name of ["program-port", "port"]) {
    const port = Number(text(name));
    if (!(Number.isInteger(port) && port > 0 && port < 65_536)) return refuse(`--${name}: has to be from 1 to 65535`);
  }
  for (const name of ["config", "data-dir", "pod-ip"]) if (text(name) === "") return refuse(`--${name}: is missing`);
  const token = text("token-file") === "" ? text("token") : (await readFile(text("token-file"), "utf8")).trim();
  if (token === "") return refuse("the token is missing: give AGENT_TOKEN in the environment, or --token-file");
  if (text("password") === "") return refuse("the password is missing: give REDIS_PASSWORD in the environment");
  try {
    return await runAgent({
      program: text("program"),
      host: text("pod-ip"),
      port: Number(text("program-port")),
      password: text("password"),
      configFile: text("config"),
      dataDir: text("data-dir"),
      agentPort: Number(text("port")),
      token,
      clock,
      log,
      signal,
    });
  } catch (error) {
    log.error({ err: error }, "the agent could not start");
    return 1;
  }
}
