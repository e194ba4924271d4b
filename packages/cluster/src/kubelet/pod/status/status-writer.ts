import { type Condition, type DeepReadonly, isNotFound, isStatusError, jsonEquals } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { sleep } from "@keelson/api-machinery/time";
import type { NodeContext } from "../../node-context.ts";
import type { PodState } from "../machine/pod-state.ts";
import { podStatus, resizeConditionTypes } from "./pod-status.ts";
import { podKey } from "../pod-view.ts";

type PodStatus = ReturnType<typeof podStatus>;

/** Writes a Pod's status: only the newest, one write at a time, with retries. */
export class StatusWriter {
  readonly #node: Pick<NodeContext, "client" | "clock" | "hostIP" | "log">;
  readonly #podIP: string;
  readonly #state: () => PodState | undefined;
  readonly #signal: AbortSignal;
  #written: PodStatus | undefined;
  #writing: Promise<void> | undefined;

  constructor(options: {
    readonly node: Pick<NodeContext, "client" | "clock" | "hostIP" | "log">;
    readonly podIP: string;
    /** The state to show; `undefined` if the object was deleted and nothing may be written. */
    readonly state: () => PodState | undefined;
    readonly signal: AbortSignal;
  }) {
    this.#node = options.node;
    this.#podIP = options.podIP;
    this.#state = options.state;
    this.#signal = options.signal;
  }

  /** Requests a write if the status has changed. */
  request(): void {
    if (this.#state() === undefined) return;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  }

  /** Resolves when requested writes are done or abandoned. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    const { client, clock, hostIP, log } = this.#node;
    // Changes of one turn are written together.
    await Promise.resolve();
    for (let pause = 500; ; ) {
      const state = this.#state();
      if (state === undefined || this.#signal.aborted) return;
      const status = podStatus(withConditions(state, this.#written), { hostIP, podIP: this.#podIP }, clock.now());
      if (jsonEquals(status, this.#written)) return;
      const { namespace, name = "", uid = "" } = state.pod.metadata;
      const written = (status.conditions ?? []).map((condition) => ({ ...emptyCondition, ...condition }));
      const conditions = [...written, ...this.#removed(state, status)];
      const body = { metadata: { uid }, status: { ...status, conditions } };
      try {
        const patch = { type: "strategic", body } as const;
        await client.patch(Pod, { namespace, name }, patch, { subresource: "status", signal: this.#signal });
        this.#written = status;
        pause = 500;
      } catch (error) {
        if (this.#signal.aborted || isNotFound(error) || isStatusError(error, "Conflict")) return;
        log.warn({ err: error, pod: podKey(state.pod) }, "could not write a pod's status; retrying");
        try {
          await sleep(clock, pause, this.#signal);
        } catch {
          return;
        }
        pause = Math.min(pause * 2, 30_000);
      }
    }
  }

  /** Removes conditions of a resize that is over. */
  #removed({ pod }: PodState, status: PodStatus): readonly { readonly type: string; readonly $patch: "delete" }[] {
    const has = (type: string, conditions: DeepReadonly<PodStatus>["conditions"] = []): boolean =>
      conditions.some((condition) => condition.type === type);
    return resizeConditionTypes
      .filter((type) => !has(type, status.conditions))
      .filter((type) => has(type, pod.status?.conditions) || has(type, this.#written?.conditions))
      .map((type) => ({ type, $patch: "delete" }));
  }
}

/**
 * The state with the conditions that were written last. The Pod may be older: with its conditions, a transition would get a new time, and be
 * written again, until the Pod arrives.
 */
function withConditions(state: PodState, written: PodStatus | undefined): PodState {
  if (written?.conditions === undefined) return state;
  const { pod } = state;
  const types = new Set(written.conditions.map(({ type }) => type));
  const others = (pod.status?.conditions ?? []).filter(({ type }) => !types.has(type));
  return { ...state, pod: { ...pod, status: { ...pod.status, conditions: [...others, ...written.conditions] } } };
}

/** Strategic merge patches merge conditions by type, so fields that a condition no longer has must be set to null. */
const emptyCondition: { readonly [K in keyof Condition]?: null } = { reason: null, message: null };
