import type { Logger } from "@keelson/controller";
import { RedisEngine, type RedisEngineOptions } from "./redis/redis-engine.ts";
import { startToolServer } from "./tool-server.ts";

/** Options of {@link runAgent}. */
export interface AgentOptions extends RedisEngineOptions {
  /** Port of the gRPC server. */
  readonly agentPort: number;
  readonly token: string;
  readonly log: Logger;
  /** Stops the program, then the agent. */
  readonly signal: AbortSignal;
}

/**
 * Runs a middleware program and its agent server until the signal fires or the program exits. Resolves to the exit code: a
 * program that exits by itself is an error, so that the kubelet restarts the container.
 */
export async function runAgent(options: AgentOptions): Promise<number> {
  const { host, agentPort, token, log, signal } = options;
  const engine = new RedisEngine(options);
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
  log.error({ cause }, "the program exited");
  return 1;
}
