import type { Logger } from "@keelson/controller";
import { createRedisEngine, type RedisEngineOptions } from "./redis-engine.ts";
import { startToolServer } from "./tool-server.ts";

/** Options of {@link runAgent}. */
export interface AgentOptions extends RedisEngineOptions {
  /** Port of the gRPC server. */
  readonly agentPort: number;
  readonly token: string;
  readonly log: Logger;
  /** Ends the program, then the agent. */
  readonly signal: AbortSignal;
}

/**
 * Runs a program of middleware and its tool server until the signal fires or the program ends. Answers the exit status: a
 * program that ended by itself is an error, so that the kubelet starts the container again.
 */
export async function runAgent(options: AgentOptions): Promise<number> {
  const { host, agentPort, token, log, signal } = options;
  const engine = createRedisEngine(options);
  await engine.start();
  const server = await startToolServer({ engine, host, port: agentPort, token, clock: options.clock });
  const aborted = new Promise<"aborted">((resolve) => {
    if (signal.aborted) resolve("aborted");
    signal.addEventListener("abort", () => resolve("aborted"), { once: true });
  });
  const cause = await Promise.race([aborted, engine.ended]);
  await server.stop();
  if (cause === "aborted") {
    await engine.stop({ timeoutMs: 20_000, force: true });
    return 0;
  }
  log.error({ cause }, "the program ended");
  return 1;
}
