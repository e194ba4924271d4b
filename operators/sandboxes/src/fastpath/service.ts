import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  type Clock,
  type DeepReadonly,
  isAlreadyExists,
  isNotFound,
  isStatusError,
  dns1123SubdomainFaults,
  type StatusError,
} from "@keelson/api-machinery";
import type { Client, Patch } from "@keelson/client";
import type { Cache, OnChange } from "@keelson/controller";
import { isAmount, isPort } from "../agent/protocol.ts";
import { cleanupFinalizer, requestIdAnnotation, reservedPorts } from "../api/names.ts";
import { type Phase, Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import type { FastCreator } from "./fast-creator.ts";
import type { FastPathMetrics } from "./fastpath-metrics.ts";
import {
  ConsistencyMode,
  type CreateRequest,
  type CreateResponse,
  CreateResponseSchema,
  DeleteResponseSchema,
  FailurePolicy,
  type FastPathService,
  ListResponseSchema,
  UpdateResponseSchema,
  type UpdateRequest,
} from "./generated/fastpath/v1/fastpath_pb.ts";
import { sandboxInfo } from "./sandbox-info.ts";

/** What the service works with. */
export interface FastPathOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly fast: FastCreator;
  readonly clock: Clock;
  readonly defaultMode: "fast" | "strong";
  readonly newId: () => string;
  readonly metrics: FastPathMetrics;
  /** How long a STRONG create waits for its sandbox to run, where the caller sets no shorter deadline. */
  readonly strongTimeoutMs: number;
}

const requestIdPattern = /^[\x21-\x7e]{1,128}$/;
const started: readonly Phase[] = ["Running", "Succeeded"];
const failed: readonly Phase[] = ["Failed", "Lost", "Expired", "Terminating"];

/** The service `fastpath.v1.FastPathService`. */
export function createFastPathService(options: FastPathOptions): ServiceImpl<typeof FastPathService> {
  const { client, cache, fast, clock } = options;

  /** Waits by the cache's changes until a Sandbox is as it should be. */
  async function reached(
    key: { namespace: string; name: string },
    isReached: (sandbox: DeepReadonly<Sandbox> | undefined) => boolean,
    signal: AbortSignal,
  ): Promise<DeepReadonly<Sandbox> | undefined> {
    return new Promise((resolve, reject) => {
      const look = (sandbox: DeepReadonly<Sandbox> | undefined): void => {
        if (!isReached(sandbox)) return;
        settle();
        resolve(sandbox);
      };
      const settle = (): void => {
        stop();
        timer.cancel();
        signal.removeEventListener("abort", abort);
      };
      const fail = (reason: string): void => {
        settle();
        const present = cache.get(Sandbox, key);
        const detail = present?.status?.message ? `: ${present.status.message}` : "";
        reject(
          new ConnectError(
            `${reason}; sandbox ${key.namespace}/${key.name} is ${present?.status?.phase ?? "Pending"}${detail}`,
            Code.DeadlineExceeded,
          ),
        );
      };
      const abort = (): void => fail("the caller does not wait any longer");
      const stop = options.onChange(Sandbox, ({ type, object }) => {
        if (object.metadata.name === key.name && object.metadata.namespace === key.namespace)
          look(type === "delete" ? undefined : object);
      });
      const timer = clock.setTimer(options.strongTimeoutMs, () => fail(`it does not run after ${options.strongTimeoutMs} ms`), {
        background: true,
      });
      signal.addEventListener("abort", abort, { once: true });
      look(cache.get(Sandbox, key));
    });
  }

  /** A sandbox of a pool that is not there would wait for nothing. Throws what the caller is to do. */
  const poolIsThere = async (namespace: string, name: string): Promise<void> => {
    if (cache.get(SandboxPool, { namespace, name }) !== undefined) return;
    try {
      // It may have been made a moment ago.
      await client.get(SandboxPool, { namespace, name });
    } catch (error) {
      if (!isNotFound(error)) throw connectError(error);
      throw new ConnectError(
        `pool_ref: there is no SandboxPool ${namespace}/${name}; make one first, as in examples/sandboxes/hello.yaml`,
        Code.FailedPrecondition,
      );
    }
  };

  const createOne = async (request: CreateRequest, isFast: boolean, signal: AbortSignal): Promise<CreateResponse> => {
    const began = clock.monotonic();
    const key = { namespace: request.namespace || "default", name: request.name || `sb-${options.newId().slice(0, 16)}` };
    const spec = specOf(request, key);
    const labels = { ...request.labels };
    const requestId = request.requestId === "" ? undefined : request.requestId;
    if (requestId !== undefined && !requestIdPattern.test(requestId))
      throw invalid(`request_id: has to match ${requestIdPattern.source}`);
    if (cache.get(Sandbox, key) !== undefined) return again(key, requestId, signal);
    await poolIsThere(key.namespace, spec.poolRef);
    if (isFast) {
      const outcome = await fast.create({ ...key, spec, labels, ...(requestId !== undefined && { requestId }) });
      if (outcome.kind === "exists") return again(key, requestId, signal);
      if (outcome.kind === "failed") throw new ConnectError(outcome.message, Code.FailedPrecondition);
      if (outcome.kind === "created") {
        const { agent, sandboxId, timings } = outcome;
        return create(CreateResponseSchema, {
          sandboxId,
          agentPod: agent.name,
          endpoints: request.exposedPorts.map((port) => `${agent.address}:${port}`),
          sandboxName: key.name,
          timings,
        });
      }
      // Full: as an object it waits for a place, and the pool sees that one more is wanted.
    }
    try {
      const annotations = requestId === undefined ? {} : { annotations: { [requestIdAnnotation]: requestId } };
      // With its finalizer already: the controller has one write less to do.
      await client.create(Sandbox, { metadata: { ...key, labels, ...annotations, finalizers: [cleanupFinalizer] }, spec });
    } catch (error) {
      if (isAlreadyExists(error)) return again(key, requestId, signal);
      throw connectError(error);
    }
    const written = clock.monotonic();
    const created = await whenStarted(key, signal);
    const now = clock.monotonic();
    created.timings = { api: written - began, controller: now - written, total: now - began };
    return created;
  };

  const whenStarted = async (key: { namespace: string; name: string }, signal: AbortSignal): Promise<CreateResponse> => {
    const sandbox = await reached(
      key,
      (each) => each !== undefined && [...started, ...failed].some((phase) => phase === each.status?.phase),
      signal,
    );
    if (sandbox === undefined || !started.some((phase) => phase === sandbox.status?.phase)) {
      throw new ConnectError(sandbox?.status?.message || "the sandbox did not start", Code.FailedPrecondition);
    }
    const { sandboxId, agentPod, endpoints } = sandboxInfo(sandbox);
    return create(CreateResponseSchema, { sandboxId, agentPod, endpoints, sandboxName: key.name });
  };

  /** The answer where the name is taken: that of the request which took it, where this is the same one once more. */
  const again = async (
    key: { namespace: string; name: string },
    requestId: string | undefined,
    signal: AbortSignal,
  ): Promise<CreateResponse> => {
    if (requestId === undefined) throw exists(key);
    let present: DeepReadonly<Sandbox>;
    try {
      present = cache.get(Sandbox, key) ?? (await client.get(Sandbox, key));
    } catch (error) {
      if (!isNotFound(error)) throw connectError(error);
      throw new ConnectError(
        `an earlier create of sandbox ${key.namespace}/${key.name} is not settled; ask again`,
        Code.Unavailable,
      );
    }
    if (present.metadata.annotations?.[requestIdAnnotation] !== requestId) throw exists(key);
    return whenStarted(key, signal);
  };

  return {
    async createSandbox(request, { signal }) {
      const began = clock.monotonic();
      const isFast = request.consistencyMode === ConsistencyMode.FAST && options.defaultMode === "fast";
      let succeeded = false;
      try {
        const created = await createOne(request, isFast, signal);
        succeeded = true;
        return created;
      } finally {
        options.metrics.created(isFast ? "fast" : "strong", succeeded, (clock.monotonic() - began) / 1000);
      }
    },

    async deleteSandbox({ sandboxName, namespace }) {
      const key = { namespace: namespace || "default", name: sandboxName };
      const wasInHand = await fast.delete(key.namespace, key.name);
      try {
        await client.delete(Sandbox, key);
      } catch (error) {
        if (!isNotFound(error)) throw connectError(error);
        if (!wasInHand) throw new ConnectError(`there is no sandbox ${key.namespace}/${key.name}`, Code.NotFound);
      }
      return create(DeleteResponseSchema, { success: true });
    },

    async updateSandbox(request) {
      const key = { namespace: request.namespace || "default", name: request.sandboxName };
      try {
        const body = updateOf(request);
        const sandbox = await client.patch(Sandbox, key, { type: "merge", body } satisfies Patch);
        return create(UpdateResponseSchema, { success: true, message: "updated", sandbox: sandboxInfo(sandbox) });
      } catch (error) {
        // As the original: what is wrong is in the answer, and the call itself succeeds.
        return create(UpdateResponseSchema, {
          success: false,
          message: error instanceof Error ? error.message : String(error),
        });
      }
    },

    listSandboxes({ namespace }) {
      const items = cache.list(Sandbox, { namespace: namespace || "default" }).map(sandboxInfo);
      return create(ListResponseSchema, { items });
    },

    async getSandbox({ sandboxName, namespace }) {
      const key = { namespace: namespace || "default", name: sandboxName };
      try {
        return sandboxInfo(cache.get(Sandbox, key) ?? (await client.get(Sandbox, key)));
      } catch (error) {
        throw connectError(error);
      }
    },
  };
}

const exists = (key: { namespace: string; name: string }): ConnectError =>
  new ConnectError(`there is a sandbox ${key.namespace}/${key.name} already`, Code.AlreadyExists);

const invalid = (message: string): ConnectError => new ConnectError(message, Code.InvalidArgument);

function specOf(request: CreateRequest, key: { namespace: string; name: string }): Sandbox["spec"] {
  const [problem] = dns1123SubdomainFaults(key.name);
  if (problem !== undefined) throw invalid(`name: ${problem}`);
  if (request.image === "") throw invalid("image: is missing");
  if (request.poolRef === "") throw invalid("pool_ref: is missing");
  const ports = new Set<number>();
  for (const port of request.exposedPorts) {
    if (!isPort(port)) throw invalid(`exposed_ports: ${String(port)} is no port; it has to be 1 to 65535`);
    if (reservedPorts.includes(port)) throw invalid(`exposed_ports: ${port} is a port of the agents and the fast path`);
    if (ports.has(port)) throw invalid(`exposed_ports: ${port} is there twice`);
    ports.add(port);
  }
  if (request.workingDir !== "" && !request.workingDir.startsWith("/")) throw invalid("working_dir: has to begin with /");
  for (const name of Object.keys(request.envs)) {
    if (name === "" || name.includes("=")) throw invalid(`envs: ${JSON.stringify(name)} cannot be a variable's name`);
  }
  const limits = Object.entries({ cpu: request.cpu, memory: request.memory }).filter(([, amount]) => amount !== "");
  for (const [name, amount] of limits) {
    if (!isAmount(amount))
      throw invalid(`${name}: ${JSON.stringify(amount)} has to be a quantity above 0, such as 500m or 256Mi`);
  }
  const seconds = Number(request.expireTimeSeconds);
  if (seconds < 0) throw invalid("expire_time_seconds: has to be Unix seconds, 0 for never");
  return {
    image: request.image,
    poolRef: request.poolRef,
    ...(request.command.length > 0 && { command: [...request.command] }),
    ...(request.args.length > 0 && { args: [...request.args] }),
    ...(Object.keys(request.envs).length > 0 && {
      envs: Object.entries(request.envs).map(([name, value]) => ({ name, value })),
    }),
    ...(request.workingDir !== "" && { workingDir: request.workingDir }),
    ...(limits.length > 0 && { resources: { limits: Object.fromEntries(limits) } }),
    ...(ports.size > 0 && { exposedPorts: [...ports] }),
    ...(seconds > 0 && { expireTime: timeOf(seconds) }),
    failurePolicy: request.failurePolicy === FailurePolicy.AUTO_RECREATE ? "AutoRecreate" : "Manual",
    recoveryTimeoutSeconds: 60,
  };
}

function timeOf(unixSeconds: number): string {
  const ms = unixSeconds * 1000;
  if (!(ms <= 253_402_300_799_000)) throw invalid("expire_time_seconds: is after the year 9999");
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

function updateOf({ update, labels }: UpdateRequest): { readonly spec?: unknown; readonly metadata?: unknown } {
  const metadata = Object.keys(labels).length > 0 ? { metadata: { labels } } : {};
  switch (update.case) {
    case "expireTimeSeconds": {
      const seconds = Number(update.value);
      if (seconds < 0) throw new Error("expire_time_seconds: has to be Unix seconds, 0 removes it");
      return { ...metadata, spec: { expireTime: seconds === 0 ? null : timeOf(seconds), expireTimeSeconds: null } };
    }
    case "resetRevision": {
      if (Number.isNaN(Date.parse(update.value)))
        throw new Error(`reset_revision: ${JSON.stringify(update.value)} is no RFC 3339 time`);
      return { ...metadata, spec: { resetRevision: update.value } };
    }
    case "failurePolicy":
      return { ...metadata, spec: { failurePolicy: update.value === FailurePolicy.AUTO_RECREATE ? "AutoRecreate" : "Manual" } };
    case "recoveryTimeoutSeconds":
      return { ...metadata, spec: { recoveryTimeoutSeconds: update.value } };
    default:
      if (Object.keys(labels).length === 0) throw new Error("nothing is to be updated");
      return metadata;
  }
}

const codes: Readonly<Record<number, Code>> = {
  400: Code.InvalidArgument,
  401: Code.Unauthenticated,
  403: Code.PermissionDenied,
  404: Code.NotFound,
  409: Code.Aborted,
  422: Code.InvalidArgument,
  429: Code.ResourceExhausted,
};

function connectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (isStatusError(error))
    return new ConnectError((error as StatusError).message, codes[error.status.code ?? 500] ?? Code.Unavailable);
  return new ConnectError(error instanceof Error ? error.message : String(error), Code.Unavailable);
}
