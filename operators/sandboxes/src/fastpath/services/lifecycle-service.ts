import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { type DeepReadonly, isConflict } from "@keelson/api-machinery";
import { type Clock, formatTime } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, OnChange } from "@keelson/controller";
import {
  type RenewRequest,
  type SandboxLifecycle,
  type SandboxRequest,
  type SandboxState,
  SandboxStateSchema,
} from "@keelson/sandbox/protocol";
import { type Phase, Sandbox } from "../../api/sandbox.ts";
import { lifetimeEnd } from "../../controllers/lifetime.ts";
import { hasEnded } from "../../controllers/sandbox-decision.ts";
import type { AgentClient } from "../../fleet/agent-client.ts";
import { AgentError } from "../../protocol/agent-error.ts";
import { connectError } from "../connect-error.ts";
import type { FastCreator } from "../creation/fast-creator.ts";
import { sandboxInfo } from "../sandbox-info.ts";
import { type SandboxKey, waitForSandbox } from "../wait-for-sandbox.ts";

/** Dependencies of the service. */
export interface LifecycleOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly clock: Clock;
  readonly agentClient: (namespace: string, name: string) => AgentClient | undefined;
  /** Sandboxes whose object is not written yet. */
  readonly fast: Pick<FastCreator, "whenWritten">;
}

/** How long a call waits for its effect, unless the caller sets a shorter deadline. */
const timeoutMs = 60_000;

/** Attempts to write an object that others keep changing. */
const maxAttempts = 16;

const maxUnixSeconds = 253_402_300_799;

const failedPhases: readonly (Phase | undefined)[] = ["Failed", "Lost", "Expired", "Terminating"];

const failedPrecondition = (message: string): ConnectError => new ConnectError(message, Code.FailedPrecondition);

/** The service `keelson.sandboxes.v1.SandboxLifecycle`. */
export function createLifecycleService(options: LifecycleOptions): ServiceImpl<typeof SandboxLifecycle> {
  const calls = new LifecycleCalls(options);
  return {
    pause: (request, { signal }) => calls.pause(keyOf(request), signal),
    resume: (request, { signal }) => calls.resume(keyOf(request), signal),
    restart: (request, { signal }) => calls.restart(keyOf(request), signal),
    renew: (request) => calls.renew(keyOf(request), request),
  };
}

class LifecycleCalls {
  readonly #options: LifecycleOptions;

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  async pause(key: SandboxKey, signal: AbortSignal): Promise<SandboxState> {
    const sandbox = await this.#change(key, requireAlive, () => ({ state: "Paused" }));
    const { sandboxId, agentPod } = sandboxInfo(sandbox);
    try {
      // The controller does the same later. This call reports immediately why an agent cannot.
      if (sandboxId !== "") await this.#options.agentClient(key.namespace, agentPod)?.pause(sandboxId);
    } catch (error) {
      if (!(error instanceof AgentError) || error.code !== "Rejected") throw connectError(error);
      // A sandbox that the agent does not have yet is paused by the controller.
      if (error.status !== 404) {
        await this.#change(
          key,
          () => {},
          () => ({ state: "Running" }),
        );
        throw failedPrecondition(error.message);
      }
    }
    return this.#whenIn(key, "Paused", signal);
  }

  async resume(key: SandboxKey, signal: AbortSignal): Promise<SandboxState> {
    await this.#change(key, requireAlive, () => ({ state: "Running" }));
    return this.#whenIn(key, "Running", signal);
  }

  async restart(key: SandboxKey, signal: AbortSignal): Promise<SandboxState> {
    const { clock } = this.#options;
    const changed = await this.#change(
      key,
      () => {},
      ({ status }) => {
        // Must be later than the last one.
        const last = Date.parse(status?.acceptedResetRevision ?? "1970-01-01T00:00:00Z");
        return { resetRevision: new Date(Math.max(clock.now(), last + 1)).toISOString() };
      },
    );
    const { resetRevision } = changed.spec;
    return this.#wait(key, ({ status }) => status?.acceptedResetRevision === resetRevision && isStarted(status?.phase), signal);
  }

  async renew(key: SandboxKey, request: RenewRequest): Promise<SandboxState> {
    const { clock } = this.#options;
    const expireTime = expiryFrom(request, clock.now());
    const sandbox = await this.#change(key, requireRenewable, () => ({ expireTime, expireTimeSeconds: null }));
    const { sandboxId, agentPod } = sandboxInfo(sandbox);
    // A paused sandbox does not expire; it gets the expiry when it is resumed.
    if (sandboxId !== "" && sandbox.status?.pausedTime === undefined) await this.#renewOnAgent(sandbox, sandboxId, agentPod);
    return stateOf(sandbox);
  }

  /** The agent enforces an expiry by itself, so a renewal is complete only once the agent has it. */
  async #renewOnAgent(sandbox: DeepReadonly<Sandbox>, sandboxId: string, pod: string): Promise<void> {
    const agent = this.#options.agentClient(sandbox.metadata.namespace ?? "", pod);
    if (agent === undefined)
      throw new ConnectError(
        `agent ${pod} has stopped reporting, and may stop the sandbox at its previous expiry`,
        Code.Unavailable,
      );
    try {
      await agent.expire(sandboxId, lifetimeEnd(sandbox) ?? null);
    } catch (error) {
      if (error instanceof AgentError && error.status === 404)
        throw failedPrecondition("the sandbox has expired: its agent has stopped it");
      throw connectError(error);
    }
  }

  /** Changes the spec of a sandbox that `check` accepts. A concurrent write is not lost: both are checked and applied again. */
  async #change(
    key: SandboxKey,
    check: (sandbox: DeepReadonly<Sandbox>) => void,
    specOf: (sandbox: DeepReadonly<Sandbox>) => object,
  ): Promise<DeepReadonly<Sandbox>> {
    const { client, cache, fast } = this.#options;
    if (cache.get(Sandbox, key) === undefined) await fast.whenWritten(key.namespace, key.name);
    for (let attempt = 1; ; attempt++) {
      try {
        const present = await client.get(Sandbox, key);
        check(present);
        const { resourceVersion } = present.metadata;
        const body = { metadata: { resourceVersion }, spec: specOf(present) };
        return await client.patch(Sandbox, key, { type: "merge", body });
      } catch (error) {
        if (!isConflict(error) || attempt >= maxAttempts) throw connectError(error);
      }
    }
  }

  #whenIn(key: SandboxKey, phase: Phase, signal: AbortSignal): Promise<SandboxState> {
    return this.#wait(key, ({ status }) => status?.phase === phase, signal);
  }

  async #wait(
    key: SandboxKey,
    isReached: (sandbox: DeepReadonly<Sandbox>) => boolean,
    signal: AbortSignal,
  ): Promise<SandboxState> {
    const { cache, onChange, clock } = this.#options;
    const isOver = (sandbox: DeepReadonly<Sandbox>): boolean =>
      hasEnded(sandbox) || failedPhases.includes(sandbox.status?.phase);
    const sandbox = await waitForSandbox(key, (each) => each === undefined || isReached(each) || isOver(each), {
      ...{ cache, onChange, clock, timeoutMs, signal },
    });
    if (sandbox === undefined) throw new ConnectError(`sandbox ${key.namespace}/${key.name} was deleted`, Code.NotFound);
    if (!isReached(sandbox)) throw failedPrecondition(notAlive(sandbox));
    return stateOf(sandbox);
  }
}

const isStarted = (phase: Phase | undefined): boolean => phase === "Running" || phase === "Paused" || phase === "Succeeded";

const keyOf = ({ sandboxName, namespace }: Pick<SandboxRequest, "sandboxName" | "namespace">): SandboxKey => ({
  namespace: namespace || "default",
  name: sandboxName,
});

function notAlive({ metadata, status }: DeepReadonly<Sandbox>): string {
  const detail = status?.message ? `: ${status.message}` : "";
  return `sandbox ${metadata.namespace ?? ""}/${metadata.name ?? ""} is ${status?.phase ?? "Pending"}${detail}`;
}

/** **Errors**: FailedPrecondition for a sandbox that has ended or is being stopped. */
function requireAlive(sandbox: DeepReadonly<Sandbox>): void {
  const isEnding = sandbox.metadata.deletionTimestamp !== undefined || sandbox.status?.phase === "Terminating";
  if (hasEnded(sandbox) || isEnding) throw failedPrecondition(notAlive(sandbox));
}

/** **Errors**: FailedPrecondition once the expiry is committed. */
function requireRenewable(sandbox: DeepReadonly<Sandbox>): void {
  requireAlive(sandbox);
  if (sandbox.status?.expiredTime !== undefined) throw failedPrecondition(notAlive(sandbox));
}

/** The new `expireTime`; null removes it. **Errors**: InvalidArgument with the field's name. */
function expiryFrom({ expiry }: RenewRequest, now: number): string | null {
  if (expiry.case === undefined)
    throw new ConnectError("expire_time_seconds: either it or expire_in_seconds is required", Code.InvalidArgument);
  const isAbsolute = expiry.case === "expireTimeSeconds";
  const seconds = isAbsolute ? Number(expiry.value) : Math.floor(now / 1000) + Number(expiry.value);
  if (isAbsolute && seconds === 0) return null;
  if (!isAbsolute && Number(expiry.value) <= 0)
    throw new ConnectError("expire_in_seconds: must be positive", Code.InvalidArgument);
  const field = isAbsolute ? "expire_time_seconds" : "expire_in_seconds";
  if (seconds * 1000 <= now) throw new ConnectError(`${field}: must be in the future`, Code.InvalidArgument);
  if (seconds > maxUnixSeconds) throw new ConnectError(`${field}: must not be after the year 9999`, Code.InvalidArgument);
  return formatTime(seconds * 1000);
}

function stateOf(sandbox: DeepReadonly<Sandbox>): SandboxState {
  const { sandboxName, sandboxId, phase, expireTimeSeconds } = sandboxInfo(sandbox);
  return create(SandboxStateSchema, { sandboxName, sandboxId, phase, expireTimeSeconds });
}
