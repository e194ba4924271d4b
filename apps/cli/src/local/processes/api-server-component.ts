import { sleep, systemClock } from "@keelson/api-machinery/time";
import {
  type AuditError,
  createNodeProxy,
  isAuditError,
  type ServedApi,
  serveApi,
  systemRandom,
  type UserInfo,
} from "@keelson/apiserver";
import { createClient } from "@keelson/client";
import { UsageError } from "@keelson/operator/flags";
import { userOfToken } from "../access/identities.ts";
import { apiServerSocket } from "../api-server-socket.ts";
import { kubeletSocket } from "../kubelet-socket.ts";
import { PodIsolation } from "../pod-isolation.ts";
import { withFreePort } from "../ports.ts";
import type { ApiServerConfig } from "./messages.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { processAccess, proxiedPodSubresources } from "./pod-subresource-proxy.ts";
import type { ComponentContext, RunningComponent } from "./run-component.ts";

/** After a crash, the former API server may need this long to notice and release the storage. */
const lockTimeoutMs = 5_000;

/** Starts the API server of `keelson up`. */
export async function startApiServerComponent(config: ApiServerConfig, context: ComponentContext): Promise<RunningComponent> {
  const { dataDir, bindAddress, serviceNetwork, requiresServiceAccounts, tokens, audit } = config;
  const { log, signal, onStarted } = context;
  const staticTokens = new Map<string, UserInfo>(Object.entries(tokens).map(([name, token]) => [token, userOfToken(name)]));
  const isolation = config.podRuntime === undefined ? undefined : new PodIsolation(config.podRuntime);
  const serve = (port: number): Promise<ServedApi> =>
    serveApi({
      ...{ dataDir, bindAddress, port, serviceNetwork, requiresServiceAccounts, staticTokens },
      socketPath: apiServerSocket(dataDir),
      clock: systemClock,
      random: systemRandom,
      kubeletHeaders: (user) => processAccess(isolation?.mayUseProcess(user) ?? false),
      subresources: {
        ...proxiedPodSubresources(kubeletSocket(dataDir), (user) => isolation?.mayUseProcess(user) ?? false),
        "/nodes/proxy": createNodeProxy(kubeletSocket(dataDir)),
      },
      ...(audit === undefined ? {} : { audit }),
      metrics: nodeMetrics(kubeletSocket(dataDir)),
      admission: isolation === undefined ? [] : [isolation.step],
      onError: (error) => log.error({ err: error, component: "apiserver" }, "background error"),
    });
  const start = (): Promise<ServedApi> =>
    withFreePort(() => serve(config.port), config.mayMovePort ? () => serve(0) : undefined);
  const api = await retryWhileLocked(start, signal).catch((error: unknown) => {
    throw isAuditError(error) ? new UsageError(`${auditFlagOf(error)}: ${error.message}`) : error;
  });
  isolation?.connect(api.server, createClient({ transport: api.server.transport(), fieldManager: "keelson" }));
  onStarted("apiserver", api.url);
  return {
    endpoints: {
      apiserver: api.url,
      kubeconfig: api.kubeconfig,
      ...(api.socketPath === undefined ? {} : { socket: api.socketPath }),
    },
    failed: new Promise<never>(() => {}),
    stop: () => api.close(),
  };
}

/** The flag whose value is wrong. */
function auditFlagOf({ code }: AuditError): string {
  return code === "Unwritable" ? "--audit-log-path" : "--audit-policy-file";
}

/** The data directory has its own lock, so only a process that is about to exit can hold the storage. */
async function retryWhileLocked<T>(start: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const deadline = systemClock.monotonic() + lockTimeoutMs;
  for (;;) {
    try {
      return await start();
    } catch (error) {
      const isLocked = error instanceof Error && "code" in error && error.code === "InUse";
      if (!isLocked || systemClock.monotonic() >= deadline) throw error;
      await sleep(systemClock, 50, signal);
    }
  }
}
