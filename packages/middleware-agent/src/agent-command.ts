import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { CommandContext, CommandDefinition, FlagDefinition } from "@keelson/operator";
import type { EngineDefinition } from "./engine-definition.ts";
import { runAgent } from "./run-agent.ts";
import { CertificateFolder } from "./tls/certificate-folder.ts";
import { tlsModeOf } from "./tls/tls-mode.ts";

const flags: readonly FlagDefinition[] = [
  { name: "program", value: "FILE", description: "executable of the program; default: that of the engine" },
  { name: "program-port", value: "PORT", description: "port of the program; default: that of the engine" },
  { name: "port", value: "PORT", description: "port of the agent's gRPC server", default: "50052" },
  { name: "config", value: "FILE", description: "file with the parameters as JSON", required: true },
  { name: "data-dir", value: "DIR", description: "mount path of the volume", required: true },
  { name: "pod-ip", value: "ADDRESS", description: "address to listen on", required: true, env: "POD_IP" },
  {
    name: "tls-mode",
    value: "MODE",
    description: "TLS of the agent and its program: prefer or require; default: none",
    default: "",
  },
  { name: "tls-dir", value: "DIR", description: "directory with ca.crt, tls.crt and tls.key of the program", default: "" },
  { name: "agent-tls-dir", value: "DIR", description: "directory with ca.crt, tls.crt and tls.key of the agent", default: "" },
  { name: "rebuild", value: "ID", description: "discard the data, once for every id", env: "KEELSON_REBUILD", default: "" },
  { name: "pod-name", value: "NAME", description: "name of the Pod", env: "POD_NAME", default: "" },
  { name: "token", value: "TOKEN", description: "token of the App; prefer the environment variable", env: "AGENT_TOKEN" },
  { name: "token-file", value: "FILE", description: "file that contains the token" },
  {
    name: "program-password",
    value: "PASSWORD",
    description: "password of the program; prefer the environment variable",
    env: "PROGRAM_PASSWORD",
  },
  { name: "password", value: "PASSWORD", description: "older name of --program-password", env: "REDIS_PASSWORD" },
];

/** Creates `agent`, the command of every middleware Pod, for some engines. The first one is the default. */
export function createAgentCommand(engines: readonly [EngineDefinition, ...EngineDefinition[]]): CommandDefinition {
  const names = engines.map(({ name }) => name);
  return {
    name: "agent",
    isInternal: true,
    description: "supervise the program of a Pod and serve the controllers",
    flags: [
      { name: "engine", value: "NAME", description: `kind of program: ${names.join(", ")}`, default: engines[0].name },
      ...flags,
      ...engines.flatMap((engine) => engine.flags ?? []),
    ],
    async run(context) {
      const name = context.flags["engine"];
      const engine = engines.find((each) => each.name === name);
      if (engine !== undefined) return runEngine(engine, context);
      context.stderr.write(`--engine: ${JSON.stringify(name)} must be ${names.join(" or ")}\n`);
      return 2;
    },
  };
}

async function runEngine(engine: EngineDefinition, context: CommandContext): Promise<number> {
  const { clock, log, signal, stderr } = context;
  const text = (name: string): string => (typeof context.flags[name] === "string" ? context.flags[name] : "");
  const refuse = (message: string): number => {
    stderr.write(`${message}\n`);
    return 2;
  };
  const programPort = text("program-port") || String(engine.port);
  for (const [name, value] of [
    ["program-port", programPort],
    ["port", text("port")],
  ]) {
    const port = Number(value);
    if (!(Number.isInteger(port) && port > 0 && port < 65_536)) return refuse(`--${name}: must be between 1 and 65535`);
  }
  for (const name of ["config", "data-dir", "pod-ip"]) if (text(name) === "") return refuse(`--${name}: required`);
  const token = text("token-file") === "" ? text("token") : (await readFile(text("token-file"), "utf8")).trim();
  if (token === "") return refuse("missing token: set AGENT_TOKEN in the environment, or pass --token-file");
  const password = text("program-password") || text("password");
  if (password === "") return refuse("missing password: set PROGRAM_PASSWORD in the environment");
  const mode = tlsModeOf(text("tls-mode"));
  if (mode === undefined && text("tls-mode") !== "") return refuse("--tls-mode: must be prefer or require");
  if (mode !== undefined && (text("tls-dir") === "" || text("agent-tls-dir") === ""))
    return refuse("--tls-mode: needs --tls-dir and --agent-tls-dir");
  try {
    const acceptedFile = join(text("data-dir"), "keelson-certificates.json");
    const tls = mode && {
      certificates: await CertificateFolder.open(text("agent-tls-dir"), log, { clock }),
      tls: { mode, certificates: await CertificateFolder.open(text("tls-dir"), log, { clock, acceptedFile }) },
    };
    return await runAgent({
      ...tls,
      engine,
      program: text("program") || engine.program,
      host: text("pod-ip"),
      podName: text("pod-name"),
      rebuild: text("rebuild"),
      port: Number(programPort),
      password,
      configFile: text("config"),
      dataDir: text("data-dir"),
      flags: Object.fromEntries((engine.flags ?? []).map((flag) => [flag.name, text(flag.name)])),
      agentPort: Number(text("port")),
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
