import { type DeepReadonly, draft, type KubernetesObject } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import type { TransferResult } from "../backup/transfer.ts";
import type { Decision, Effect } from "../controllers/effect.ts";

/** Objects that a pure decision reads and writes, and a clock. It performs effects as the API server and the kubelet would. */
export class EffectDriver<T extends KubernetesObject> {
  object: T | undefined;
  now = Date.UTC(2026, 0, 1);
  readonly pods = new Map<string, PodObject>();
  readonly created: KubernetesObject[] = [];
  /** Effects that were performed. */
  readonly performed: Effect[] = [];
  readonly #decide: (object: DeepReadonly<T>, driver: EffectDriver<T>) => Decision;
  #uids = 0;

  constructor(object: T, decide: (object: DeepReadonly<T>, driver: EffectDriver<T>) => Decision) {
    this.object = object;
    this.#decide = decide;
  }

  /**
   * Decides and performs until nothing changes. Returns the delay that the last decision requested. `crashAfter`: the controller crashes
   * after this many effects of each decision, which are all it performs.
   */
  settle(crashAfter = Number.POSITIVE_INFINITY): number | undefined {
    for (let round = 0; round < 100; round += 1) {
      const { isChanged, requeueAfterMs } = this.step(crashAfter);
      if (!isChanged) return requeueAfterMs;
    }
    throw new Error(`not settled: ${JSON.stringify(this.object, undefined, 1)}`);
  }

  /** Decides and performs once. */
  step(crashAfter = Number.POSITIVE_INFINITY): { readonly isChanged: boolean; readonly requeueAfterMs: number | undefined } {
    if (this.object === undefined) return { isChanged: false, requeueAfterMs: undefined };
    const { effects, requeueAfterMs } = this.#decide(this.object as DeepReadonly<T>, this);
    const done = effects.slice(0, crashAfter).map((effect) => this.#perform(effect));
    return { isChanged: done.includes(true), requeueAfterMs };
  }

  /** The only Pod that has not ended. */
  runningPod(): PodObject {
    const [pod, ...more] = [...this.pods.values()].filter(({ status }) => status?.phase === "Running");
    if (pod === undefined || more.length > 0) throw new Error(`${more.length + Number(pod !== undefined)} running Pods`);
    return pod;
  }

  /** Ends the running Pod with a result. */
  endPod(result: TransferResult | string): void {
    const pod = this.runningPod();
    const isOk = typeof result !== "string" && result.ok;
    const message = typeof result === "string" ? result : JSON.stringify(result);
    const terminated = { exitCode: isOk ? 0 : 1, message };
    pod.status = {
      phase: isOk ? "Succeeded" : "Failed",
      containerStatuses: [{ name: "transfer", state: { terminated } }],
    } as NonNullable<PodObject["status"]>;
  }

  /** Performs an effect. Returns whether anything changed. */
  #perform(effect: Effect): boolean {
    this.performed.push(effect);
    const object = this.object;
    switch (effect.kind) {
      case "status":
        if (object !== undefined) this.object = { ...object, status: draft(effect.status as object) } as T;
        return true;
      case "apply": {
        const pod = draft(effect.object) as PodObject;
        const name = pod.metadata.name ?? "";
        if (this.pods.has(name)) return false;
        this.#uids += 1;
        this.pods.set(name, { ...pod, metadata: { ...pod.metadata, uid: `pod-${this.#uids}` }, status: { phase: "Running" } });
        return true;
      }
      case "create":
        if (
          this.created.some(
            ({ metadata, kind }) => kind === effect.object.kind && metadata.name === effect.object.metadata.name,
          )
        )
          return false;
        this.created.push(draft(effect.object) as KubernetesObject);
        return true;
      case "delete":
        return this.pods.delete(effect.key.name ?? "");
      case "add-finalizer":
        if (object !== undefined) object.metadata.finalizers = [effect.finalizer];
        return true;
      case "remove-finalizer":
        if (object?.metadata.deletionTimestamp === undefined) delete object?.metadata.finalizers;
        else this.object = undefined;
        return true;
      default:
        throw new Error(`${effect.kind} is not simulated`);
    }
  }
}
