import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type DeepReadonly, isAlreadyExists, isConflict, isNotFound } from "@keelson/api-machinery";
import { type Clock, formatMicroTime } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, OnChange } from "@keelson/controller";
import { type CreateRequest, type CreateResponse, CreateResponseSchema } from "@keelson/sandbox/protocol";
import { cleanupFinalizer, requestIdAnnotation, startDeadlineAnnotation } from "../../api/names.ts";
import { type Phase, Sandbox } from "../../api/sandbox.ts";
import { SandboxPool } from "../../api/sandbox-pool.ts";
import { connectError } from "../connect-error.ts";
import type { FastCreator } from "./fast-creator.ts";
import { parseRequestId, specOf } from "./read-request.ts";
import { retryHintMs, retryPushbackHeader } from "./retry-hint.ts";
import { sandboxInfo } from "../sandbox-info.ts";
import { cachedVolumes, type ResolvedVolumes } from "../../volumes/resolve-volumes.ts";
import { type SandboxKey, waitForSandbox } from "../wait-for-sandbox.ts";

/** Dependencies of a {@link SandboxCreator}. */
export interface SandboxCreatorOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly fast: FastCreator;
  readonly clock: Clock;
  /** Called if no agent of a pool has a free slot for a create that does not wait. */
  readonly onRejected: (pool: SandboxKey) => void;
  /** 128 random bits as 32 hexadecimal digits. */
  readonly newId: () => string;
  /** How long a STRONG create waits for its sandbox to run, unless the caller sets a shorter deadline. */
  readonly strongTimeoutMs: number;
}

const started: readonly Phase[] = ["Running", "Succeeded"];
const failed: readonly Phase[] = ["Failed", "Lost", "Expired", "Terminating"];

/** A create whose request was checked. */
interface PreparedCreate {
  readonly key: SandboxKey;
  readonly spec: Sandbox["spec"];
  readonly labels: Readonly<Record<string, string>>;
  readonly requestId: string | undefined;
  readonly signal: AbortSignal;
  /** Time until the caller's deadline when the request arrived. */
  readonly timeoutMs: number | undefined;
  /** The clock's monotonic time of the request. */
  readonly began: number;
}

/** The call of a create. */
export interface CreateCall {
  /** Aborts at the caller's deadline, and if the caller disconnects. */
  readonly signal: AbortSignal;
  /** Time until the caller's deadline. Default: none. */
  readonly timeoutMs?: number | undefined;
}

/** Creates sandboxes: FAST on an agent first, STRONG by their object. */
export class SandboxCreator {
  readonly #options: SandboxCreatorOptions;

  constructor(options: SandboxCreatorOptions) {
    this.#options = options;
  }

  /** Creates a sandbox, or answers like the first request if this one repeats it. **Errors**: `ConnectError`. */
  async create(request: CreateRequest, isFast: boolean, call: CreateCall): Promise<CreateResponse> {
    const { newId, cache, clock } = this.#options;
    const began = clock.monotonic();
    const key = { namespace: request.namespace || "default", name: request.name || `sb-${newId().slice(0, 16)}` };
    const spec = specOf(request, key);
    const { signal, timeoutMs } = call;
    const labels = { ...request.labels };
    const prepared = { key, spec, labels, requestId: parseRequestId(request), signal, timeoutMs, began };
    if (cache.get(Sandbox, key) !== undefined) return this.#repeated(prepared);
    const pool = await this.#requirePool(key.namespace, spec.poolRef);
    // If every agent is full, the object waits for a slot, and the pool sees the demand.
    return (isFast ? await this.#createFast(prepared, pool) : undefined) ?? (await this.#createStrong(prepared));
  }

  /** `undefined` if every agent is full. */
  async #createFast(prepared: PreparedCreate, pool: DeepReadonly<SandboxPool>): Promise<CreateResponse | undefined> {
    const { key, spec, labels, requestId, signal } = prepared;
    const volumes = this.#resolveVolumes(prepared);
    if (volumes === undefined) return undefined;
    const outcome = await this.#options.fast.create({
      ...{ ...key, spec, labels },
      ...(volumes.agent !== undefined && { volumes: { agent: volumes.agent, mounts: volumes.mounts } }),
      ...(requestId !== undefined && { requestId }),
    });
    if (outcome.kind === "full") {
      const cannotBurst = spec.whenFull === "Burst" && (pool.spec.capacity?.burstMax ?? 0) === 0;
      if (cannotBurst) throw this.#exhausted(key, spec, `${outcome.message}; capacity.burstMax of pool ${spec.poolRef} is 0`);
      if (spec.whenFull !== "Reject") return undefined;
      this.#options.onRejected({ namespace: key.namespace, name: spec.poolRef });
      throw this.#exhausted(key, spec, outcome.message);
    }
    if (outcome.kind === "exists") return this.#repeated(prepared);
    if (outcome.kind === "failed") throw new ConnectError(outcome.message, Code.FailedPrecondition);
    const { agent, sandboxId, timings } = outcome;
    if (signal.aborted) throw await this.#withdraw(key, undefined);
    return create(CreateResponseSchema, {
      sandboxId,
      agentPod: agent.name,
      endpoints: (spec.exposedPorts ?? []).map((port) => `${agent.address}:${port}`),
      sandboxName: key.name,
      timings,
    });
  }

  /** The volumes; undefined if they are not ready yet. **Errors**: FailedPrecondition if one does not exist. */
  #resolveVolumes({ key, spec }: PreparedCreate): Extract<ResolvedVolumes, { readonly kind: "ready" }> | undefined {
    const volumes = cachedVolumes(spec, key.namespace, this.#options.cache);
    if (volumes.kind === "ready") return volumes;
    if (volumes.isMissing) throw new ConnectError(volumes.message, Code.FailedPrecondition);
    if (spec.whenFull === "Reject") throw this.#exhausted(key, spec, volumes.message);
    return undefined;
  }

  async #createStrong(prepared: PreparedCreate): Promise<CreateResponse> {
    const { client, clock, fast } = this.#options;
    const { key, spec, labels, requestId, signal, began } = prepared;
    this.#resolveVolumes(prepared);
    // A deleted sandbox of the same name keeps its slot until it has stopped.
    await fast.whenWritten(key.namespace, key.name);
    if (signal.aborted) throw new ConnectError("deadline exceeded or call cancelled", Code.DeadlineExceeded);
    let uid: string | undefined;
    try {
      const annotations = {
        ...(requestId !== undefined && { [requestIdAnnotation]: requestId }),
        // Holds if this process dies while it waits.
        [startDeadlineAnnotation]: this.#startDeadline(prepared),
      };
      // Created with its finalizer, which saves the controller a write.
      const metadata = { ...key, labels, annotations, finalizers: [cleanupFinalizer] };
      uid = (await client.create(Sandbox, { metadata, spec })).metadata.uid;
    } catch (error) {
      if (isAlreadyExists(error)) return this.#repeated(prepared);
      throw connectError(error);
    }
    const written = clock.monotonic();
    const created = await this.#whenStarted(key, signal).catch(async (error: unknown) => {
      if (!(error instanceof ConnectError)) throw error;
      if (error.code === Code.DeadlineExceeded) throw await this.#withdraw(key, uid, error.rawMessage);
      if (error.code !== Code.ResourceExhausted) throw error;
      const { rawMessage } = await this.#withdraw(key, uid, error.rawMessage);
      throw this.#exhausted(key, spec, rawMessage);
    });
    const now = clock.monotonic();
    created.timings = { api: written - began, controller: now - written, total: now - began };
    return created;
  }

  /** The caller's deadline as a time, at most {@link SandboxCreatorOptions.strongTimeoutMs} from now. */
  #startDeadline({ timeoutMs, began }: PreparedCreate): string {
    const { clock, strongTimeoutMs } = this.#options;
    const remainingMs = Math.min(strongTimeoutMs, timeoutMs ?? strongTimeoutMs) - (clock.monotonic() - began);
    return formatMicroTime(clock.now() + Math.max(remainingMs, 0));
  }

  /** The error of a create for which no slot is free, with gRPC's retry hint. */
  #exhausted({ namespace }: SandboxKey, { poolRef }: Sandbox["spec"], reason: string): ConnectError {
    const { cache, clock } = this.#options;
    const retryMs = retryHintMs(cache.list(Sandbox, { namespace, index: ["pool", poolRef] }), clock.now());
    const message = `${reason}; retry in ${Math.ceil(retryMs / 1000)} s`;
    return new ConnectError(message, Code.ResourceExhausted, { [retryPushbackHeader]: String(retryMs) });
  }

  /** The answer if the name is taken: that of the first request if this one repeats it. */
  async #repeated({ key, requestId, signal }: PreparedCreate): Promise<CreateResponse> {
    const { cache, client } = this.#options;
    if (requestId === undefined) throw alreadyExists(key);
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
    if (present.metadata.annotations?.[requestIdAnnotation] !== requestId) throw alreadyExists(key);
    return this.#whenStarted(key, signal);
  }

  async #whenStarted(key: SandboxKey, signal: AbortSignal): Promise<CreateResponse> {
    const { cache, onChange, clock, strongTimeoutMs } = this.#options;
    const sandbox = await waitForSandbox(
      key,
      (each) => each !== undefined && [...started, ...failed].some((phase) => phase === each.status?.phase),
      { cache, onChange, clock, timeoutMs: strongTimeoutMs, signal },
    );
    if (sandbox === undefined || !started.some((phase) => phase === sandbox.status?.phase)) {
      const message = sandbox?.status?.message || "the sandbox did not start";
      const isRejected = sandbox?.spec.whenFull === "Reject" && sandbox.status?.sandboxID === undefined;
      throw new ConnectError(message, isRejected ? Code.ResourceExhausted : Code.FailedPrecondition);
    }
    const { sandboxId, agentPod, endpoints } = sandboxInfo(sandbox);
    return create(CreateResponseSchema, { sandboxId, agentPod, endpoints, sandboxName: key.name });
  }

  /** Deletes a sandbox whose caller no longer waits, so that it does not run later. Resolves to the error for the caller. */
  async #withdraw(
    key: SandboxKey,
    uid: string | undefined,
    reason = "deadline exceeded or call cancelled",
  ): Promise<ConnectError> {
    const { fast, client } = this.#options;
    const withdrawn = new ConnectError(`${reason}; the create was withdrawn`, Code.DeadlineExceeded);
    try {
      if (await fast.delete(key.namespace, key.name)) return withdrawn;
      await client.delete(Sandbox, key, uid === undefined ? {} : { preconditions: { uid } });
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw connectError(error);
    }
    return withdrawn;
  }

  /** **Errors**: FailedPrecondition if the pool does not exist; the sandbox would wait forever. */
  async #requirePool(namespace: string, name: string): Promise<DeepReadonly<SandboxPool>> {
    const { cache, client } = this.#options;
    try {
      // The cache may not have it yet.
      return cache.get(SandboxPool, { namespace, name }) ?? (await client.get(SandboxPool, { namespace, name }));
    } catch (error) {
      if (!isNotFound(error)) throw connectError(error);
      throw new ConnectError(
        `pool_ref: SandboxPool ${namespace}/${name} not found; create one first, as in examples/sandboxes/hello.yaml`,
        Code.FailedPrecondition,
      );
    }
  }
}

function alreadyExists({ namespace, name }: SandboxKey): ConnectError {
  return new ConnectError(`sandbox ${namespace}/${name} already exists`, Code.AlreadyExists);
}
