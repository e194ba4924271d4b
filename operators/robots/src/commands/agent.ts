import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { setOwn } from "@keelson/api-machinery";
import type { CommandContext, CommandDefinition, FlagValues } from "@keelson/operator";
import { robotIdPattern } from "../protocol/messages.ts";
import type { AgentOptions, StartAgent } from "./start-agent.ts";

/** What is wrong with the flags of a command. */
export class AgentFlagError extends Error {
  override readonly name = "AgentFlagError";
  readonly code = "BadFlag";
}

/** Makes the command `keelson robots agent`, which runs on a robot. */
export function createAgentCommand(startAgent: StartAgent): CommandDefinition {
  return {
    name: "agent",
    description: "run on a robot: register it, run the tasks that it is given, report how they go",
    flags: [
      { name: "broker-url", value: "URL", description: "MQTT broker", default: "tcp://localhost:1883" },
      { name: "robot-id", value: "ID", description: "the robot's name: a-z, 0-9 and -, at most 63", required: true },
      {
        name: "token",
        value: "TOKEN",
        description: "join token; others on this machine can read it, better use --token-file",
        env: "K8S4R_TOKEN",
      },
      { name: "token-file", value: "FILE", description: "file with the join token" },
      { name: "heartbeat-interval", value: "SECONDS", description: "how often to say that the robot is there", default: "30" },
      { name: "work-dir", value: "DIR", description: "where tasks have their folders (default: $HOME/.k8s4r/tasks)" },
      {
        name: "label",
        value: "KEY=VALUE",
        description: "label of the robot, when this registration makes it",
        repeatable: true,
      },
      {
        name: "stop-tasks-on-exit",
        description: "end running tasks when the agent ends; else they go on and the next agent finds them",
      },
      { name: "log-level", value: "LEVEL", description: "debug, info, warn, error or silent", default: "info" },
    ],
    usesCluster: false,
    run: (context) => run(context, startAgent),
  };
}

async function run(context: CommandContext, startAgent: StartAgent): Promise<number> {
  let options: AgentOptions;
  try {
    options = await readAgentFlags(context);
  } catch (error) {
    if (!(error instanceof AgentFlagError)) throw error;
    context.stderr.write(`${error.message}\n`);
    return 2;
  }
  const agent = await startAgent(options);
  const stop = (): void =>
    void agent.stop().catch((error: unknown) => context.log.error({ error: String(error) }, "the agent did not stop cleanly"));
  if (context.signal.aborted) stop();
  context.signal.addEventListener("abort", stop, { once: true });
  try {
    await agent.done;
    return 0;
  } finally {
    context.signal.removeEventListener("abort", stop);
  }
}

/**
 * The agent's options from the command's flags.
 *
 * **Errors**: throws an {@link AgentFlagError} that names the flag.
 */
export async function readAgentFlags({
  flags,
  clock,
  log,
}: Pick<CommandContext, "flags" | "clock" | "log">): Promise<AgentOptions> {
  const robotId = text(flags, "robot-id") ?? "";
  if (!robotIdPattern.test(robotId)) {
    throw new AgentFlagError(`--robot-id: ${JSON.stringify(robotId)} has to be up to 63 of a-z, 0-9 and -, not at its ends`);
  }
  const brokerUrl = text(flags, "broker-url") ?? "tcp://localhost:1883";
  if (!URL.canParse(brokerUrl) || !["tcp:", "mqtt:", "mqtts:", "ssl:"].includes(new URL(brokerUrl).protocol)) {
    throw new AgentFlagError(
      `--broker-url: ${JSON.stringify(brokerUrl)} has to be like tcp://host:1883 (or mqtt://, mqtts://, ssl://)`,
    );
  }
  const seconds = Number(text(flags, "heartbeat-interval") ?? "30");
  if (!(seconds >= 1 && seconds <= 3600)) throw new AgentFlagError("--heartbeat-interval: has to be 1 to 3600 seconds");
  const labels: Record<string, string> = {};
  const pairs = flags.label;
  for (const pair of typeof pairs === "string" ? [pairs] : Array.isArray(pairs) ? (pairs as readonly string[]) : []) {
    const equals = pair.indexOf("=");
    if (equals < 1) throw new AgentFlagError(`--label: ${JSON.stringify(pair)} has to be like key=value`);
    setOwn(labels, pair.slice(0, equals), pair.slice(equals + 1));
  }
  return {
    brokerUrl,
    robotId,
    token: await readToken(flags),
    heartbeatIntervalMs: seconds * 1000,
    workDir: text(flags, "work-dir") ?? join(homedir(), ".k8s4r", "tasks"),
    labels,
    clock,
    log,
    stopTasksOnExit: flags["stop-tasks-on-exit"] === true,
  };
}

async function readToken(flags: FlagValues): Promise<string> {
  const file = text(flags, "token-file");
  // The environment stands in for --token, so a file that is named has to win over it.
  if (file === undefined) {
    const token = text(flags, "token") ?? "";
    if (token === "")
      throw new AgentFlagError("the join token is missing: give --token-file, or K8S4R_TOKEN in the environment");
    return token;
  }
  let content: string;
  try {
    content = await readFile(file, "utf8");
  } catch (error) {
    throw new AgentFlagError(`--token-file: ${(error as Error).message}`);
  }
  if (content.trim() === "") throw new AgentFlagError(`--token-file: ${file} is empty`);
  return content.trim();
}

function text(flags: FlagValues, name: string): string | undefined {
  const value = flags[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}
