import { createAgentCommand, type EngineDefinition, runAsProgram } from "@keelson/middleware-agent";
import { transferCommand } from "../commands/transfer.ts";
import { redisAgent } from "./redis-agent.ts";

/**
 * Runs the agent of Redis, Valkey and `engines` as a program, without the `keelson` command; with `transfer` as the first argument the transfer
 * of a backup. The argument `agent` can be left out. Resolves to the exit code.
 */
export function runAgent(argv: readonly string[], engines: readonly EngineDefinition[] = []): Promise<number> {
  const [first, ...rest] = argv;
  if (first === "transfer") return runAsProgram(transferCommand, rest);
  return runAsProgram(createAgentCommand([redisAgent, ...engines]), first === "agent" ? rest : argv);
}
