import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { type DeepReadonly, isAlreadyExists, isNotFound, isStatusError, type StatusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client, Patch } from "@keelson/client";
import type { Cache } from "@keelson/controller";
import type { OnChange } from "@keelson/controller";
import { cleanupFinalizer, requestIdAnnotation } from "../api/names.ts";
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
  type FastPathService,
  ListResponseSchema,
  UpdateResponseSchema,
} from "./generated/fastpath/v1/fastpath_pb.ts";
import { requestIdOf, specOf, updateOf } from "./read-request.ts";
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
    const requestId = requestIdOf(request);
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
