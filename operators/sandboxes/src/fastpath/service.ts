import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  type DeepReadonly,
  isAlreadyExists,
  isConflict,
  isNotFound,
  isStatusError,
  type StatusError,
} from "@keelson/api-machinery";
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
import { parseRequestId, specOf, parseUpdate } from "./read-request.ts";
import { sandboxInfo } from "./sandbox-info.ts";

/** Dependencies of the service. */
export interface FastPathOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly fast: FastCreator;
  readonly clock: Clock;
  readonly defaultMode: "fast" | "strong";
  readonly newId: () => string;
  readonly metrics: FastPathMetrics;
  /** How long a STRONG create waits for its sandbox to run, unless the caller sets a shorter deadline. */
  readonly strongTimeoutMs: number;
}

const started: readonly Phase[] = ["Running", "Succeeded"];
const failed: readonly Phase[] = ["Failed", "Lost", "Expired", "Terminating"];

/** The service `fastpath.v1.FastPathService`. */
export function createFastPathService(options: FastPathOptions): ServiceImpl<typeof FastPathService> {
  const { client, cache, fast, clock } = options;

  /** Watches the cache until a Sandbox satisfies a condition. */
  async function waitUntil(
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
      const abort = (): void => fail("deadline exceeded or call cancelled");
      const stop = options.onChange(Sandbox, ({ type, object }) => {
        if (object.metadata.name === key.name && object.metadata.namespace === key.namespace)
          look(type === "delete" ? undefined : object);
      });
      const timer = clock.setTimer(options.strongTimeoutMs, () => fail(`not running after ${options.strongTimeoutMs} ms`), {
        background: true,
      });
      signal.addEventListener("abort", abort, { once: true });
      look(cache.get(Sandbox, key));
    });
  }

  /** Throws if the pool does not exist: the sandbox would wait forever. */
  const requirePool = async (namespace: string, name: string): Promise<void> => {
    if (cache.get(SandboxPool, { namespace, name }) !== undefined) return;
    try {
      // The cache may not have it yet.
      await client.get(SandboxPool, { namespace, name });
    } catch (error) {
      if (!isNotFound(error)) throw connectError(error);
      throw new ConnectError(
        `pool_ref: SandboxPool ${namespace}/${name} not found; create one first, as in examples/sandboxes/hello.yaml`,
        Code.FailedPrecondition,
      );
    }
  };

  /** Deletes a sandbox whose caller no longer waits, so that it does not run later. Returns the error for the caller. */
  const withdraw = async (
    key: { namespace: string; name: string },
    uid: string | undefined,
    reason = "deadline exceeded or call cancelled",
  ): Promise<ConnectError> => {
    await fast.delete(key.namespace, key.name);
    try {
      await client.delete(Sandbox, key, uid === undefined ? {} : { preconditions: { uid } });
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw connectError(error);
    }
    return new ConnectError(`${reason}; the create was withdrawn`, Code.DeadlineExceeded);
  };

  const createOne = async (request: CreateRequest, isFast: boolean, signal: AbortSignal): Promise<CreateResponse> => {
    const began = clock.monotonic();
    const key = { namespace: request.namespace || "default", name: request.name || `sb-${options.newId().slice(0, 16)}` };
    const spec = specOf(request, key);
    const labels = { ...request.labels };
    const requestId = parseRequestId(request);
    if (cache.get(Sandbox, key) !== undefined) return repeated(key, requestId, signal);
    await requirePool(key.namespace, spec.poolRef);
    if (isFast) {
      const outcome = await fast.create({ ...key, spec, labels, ...(requestId !== undefined && { requestId }) });
      if (outcome.kind === "exists") return repeated(key, requestId, signal);
      if (outcome.kind === "failed") throw new ConnectError(outcome.message, Code.FailedPrecondition);
      if (outcome.kind === "created") {
        const { agent, sandboxId, timings } = outcome;
        if (signal.aborted) throw await withdraw(key, undefined);
        return create(CreateResponseSchema, {
          sandboxId,
          agentPod: agent.name,
          endpoints: request.exposedPorts.map((port) => `${agent.address}:${port}`),
          sandboxName: key.name,
          timings,
        });
      }
      // Full: the object waits for a slot, and the pool sees the demand.
    }
    let uid: string | undefined;
    try {
      const annotations = requestId === undefined ? {} : { annotations: { [requestIdAnnotation]: requestId } };
      // Created with its finalizer, which saves the controller a write.
      const metadata = { ...key, labels, ...annotations, finalizers: [cleanupFinalizer] };
      uid = (await client.create(Sandbox, { metadata, spec })).metadata.uid;
    } catch (error) {
      if (isAlreadyExists(error)) return repeated(key, requestId, signal);
      throw connectError(error);
    }
    const written = clock.monotonic();
    const created = await whenStarted(key, signal).catch(async (error: unknown) => {
      const hasExpired = error instanceof ConnectError && error.code === Code.DeadlineExceeded;
      throw hasExpired ? await withdraw(key, uid, error.rawMessage) : error;
    });
    const now = clock.monotonic();
    created.timings = { api: written - began, controller: now - written, total: now - began };
    return created;
  };

  const whenStarted = async (key: { namespace: string; name: string }, signal: AbortSignal): Promise<CreateResponse> => {
    const sandbox = await waitUntil(
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

  /** The answer if the name is taken: that of the first request if this one repeats it. */
  const repeated = async (
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
        `an earlier create of sandbox ${key.namespace}/${key.name} is in progress; retry`,
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
      const wasPending = await fast.delete(key.namespace, key.name);
      try {
        await client.delete(Sandbox, key);
      } catch (error) {
        if (!isNotFound(error)) throw connectError(error);
        if (!wasPending) throw new ConnectError(`sandbox ${key.namespace}/${key.name} not found`, Code.NotFound);
      }
      return create(DeleteResponseSchema, { success: true });
    },

    async updateSandbox(request) {
      const key = { namespace: request.namespace || "default", name: request.sandboxName };
      try {
        const body = parseUpdate(request);
        const sandbox = await client.patch(Sandbox, key, { type: "merge", body } satisfies Patch);
        return create(UpdateResponseSchema, { success: true, message: "updated", sandbox: sandboxInfo(sandbox) });
      } catch (error) {
        // As in the original, errors are part of the answer and the call succeeds.
        return create(UpdateResponseSchema, {
          success: false,
          message: messageOf(error),
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
  new ConnectError(`sandbox ${key.namespace}/${key.name} already exists`, Code.AlreadyExists);

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

function messageOf(error: unknown): string {
  if (error instanceof ConnectError) return error.rawMessage;
  return error instanceof Error ? error.message : String(error);
}
