import type { NodeContext } from "../node-context.ts";
import type { PodRecords } from "../pod/pod-records.ts";
import { resizeNote, resourcesOf, withResources } from "./pod-resources.ts";
import type { ResizeNews } from "../pod/machine/pod-state.ts";
import type { PodView } from "../pod/pod-view.ts";
import { resizeRefusal, type ResizeRefusal } from "./resize-decision.ts";

/** A Pod as the node runs it: with the resources that it has admitted. */
export interface AdmittedPod {
  readonly pod: PodView;
  readonly resize: ResizeNews;
}

/** The services of the node that admission needs. */
type ResizingNode = Pick<NodeContext, "capacity" | "log"> & { readonly events: Pick<NodeContext["events"], "event"> };

interface Pending {
  readonly desired: PodView;
  /** Undefined until it is first decided. */
  readonly refusal?: ResizeRefusal;
}

/** Admits changes of the resources of running Pods (KEP-1287), and keeps those that wait for other Pods to free resources. */
export class PodResizes {
  readonly #node: ResizingNode;
  readonly #records: PodRecords;
  readonly #others: (uid: string) => Iterable<PodView>;
  readonly #pending = new Map<string, Pending>();

  /** `others` returns the Pods except one, with their allocated resources, that have not ended. */
  constructor(node: ResizingNode, records: PodRecords, others: (uid: string) => Iterable<PodView>) {
    this.#node = node;
    this.#records = records;
    this.#others = others;
  }

  /** The Pod with its allocated resources. If it wants others, {@link waiting} includes it. */
  restore(uid: string, desired: PodView): PodView {
    const pod = withResources(desired, this.#records.get(uid)?.allocated ?? {});
    if (pod !== desired) this.#pending.set(uid, { desired });
    return pod;
  }

  /** The Pod as the API server has it, given the Pod as the node runs it. */
  desired(uid: string, pod: PodView): PodView {
    return this.#pending.get(uid)?.desired ?? pod;
  }

  /** The Pods whose resize may be admitted now, those of the highest priority first. */
  waiting(): readonly { readonly uid: string; readonly desired: PodView }[] {
    return [...this.#pending]
      .filter(([, { refusal }]) => refusal?.reason !== "Infeasible")
      .map(([uid, { desired }]) => ({ uid, desired }))
      .sort((a, b) => (b.desired.spec.priority ?? 0) - (a.desired.spec.priority ?? 0));
  }

  /** Admits the resources of a Pod if they fit the node. The allocation is stored in the background. */
  admit(uid: string, desired: PodView): AdmittedPod {
    const pod = withResources(desired, this.#records.get(uid)?.allocated ?? {});
    if (pod === desired) {
      this.#pending.delete(uid);
      return { pod, resize: { kind: "none" } };
    }
    const { generation = 0 } = desired.metadata;
    const refusal = resizeRefusal(desired, this.#others(uid), this.#node.capacity);
    if (refusal === undefined) {
      this.#pending.delete(uid);
      this.#records.update(uid, { allocated: resourcesOf(desired) }).catch((error: unknown) => {
        this.#node.log.warn({ err: error, pod: uid }, "could not store the allocated resources of a pod");
      });
      const note = resizeNote("Pod resize started", desired, generation);
      this.#node.events.event(desired, { type: "Normal", reason: "ResizeStarted", note });
      return { pod: desired, resize: { kind: "allocated", generation } };
    }
    this.#refuse(uid, desired, generation, refusal);
    return { pod, resize: { kind: "pending", generation, ...refusal } };
  }

  forget(uid: string): void {
    this.#pending.delete(uid);
  }

  #refuse(uid: string, desired: PodView, generation: number, refusal: ResizeRefusal): void {
    const before = this.#pending.get(uid);
    this.#pending.set(uid, { desired, refusal });
    const isKnown = before?.refusal?.reason === refusal.reason && before.desired.metadata.generation === generation;
    if (isKnown && before.refusal.message === refusal.message) return;
    const note = resizeNote(`Pod resize ${refusal.reason}`, desired, generation, refusal.message);
    this.#node.events.event(desired, { type: "Warning", reason: `Resize${refusal.reason}`, note });
  }
}
