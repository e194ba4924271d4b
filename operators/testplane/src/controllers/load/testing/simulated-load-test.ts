import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { LoadResult } from "../../../api/load-result.ts";
import type { LoadTestSpec, LoadTestStatus } from "../../../api/load-test.ts";
import type { Observation } from "../../../evaluation/target.ts";
import { iso } from "../../test-status.ts";
import { decideLoadTest } from "../load-test-decision.ts";
import type { LoadTestAction } from "../load-test-input.ts";

/** The target. */
export const manifest = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "desk" } };
/** A check that holds once the target has been seen as `Lit`. */
export const lit = { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] };
/** A load of 100 s on the target. */
export const plain: LoadTestSpec = {
  target: { resource: { manifest }, readyCondition: lit },
  workload: { resources: [{ manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "load" } } }] },
  healthCheck: { intervalSeconds: 10, failureThreshold: 3, ...lit },
  durationSeconds: 100,
};

/** Runs the state machine of a LoadTest with a simulated clock, a target, and actions that succeed. */
export class SimulatedLoadTest {
  readonly actions: LoadTestAction[] = [];
  readonly events: string[] = [];
  readonly #workload = new Map<string, Record<string, unknown>>();
  #spec: LoadTestSpec;
  #generation = 1;
  #now = Date.UTC(2026, 0, 1);
  #status: DeepReadonly<LoadTestStatus> = {};
  #target: Observation = { kind: "known", objects: [], hasSeen: () => true };
  #pods: Observation | undefined;
  #measured: LoadResult | undefined;
  #wakeAtMs: number | undefined;

  constructor(spec: LoadTestSpec) {
    this.#spec = spec;
  }

  get status(): DeepReadonly<LoadTestStatus> {
    return this.#status;
  }

  /** Reconciles until nothing changes. */
  settle(): DeepReadonly<LoadTestStatus> {
    for (let turns = 0; turns < 100; turns++) {
      const before = this.#status;
      this.#turn();
      if (jsonEquals(before, this.#status)) return this.#status;
    }
    throw new Error("the state machine does not settle");
  }

  /** Sets the phase of the target. */
  see(phase: string): void {
    this.#target = { kind: "known", objects: [{ ...manifest, status: { phase } }], hasSeen: () => true };
  }

  /** Sets what is known about the target. */
  know(what: Observation): void {
    this.#target = what;
  }

  /** Sets what is known about the Pods of the target. */
  knowPods(what: Observation): void {
    this.#pods = what;
  }

  /** Sets what the workload's output reports. */
  measure(load: LoadResult | undefined): void {
    this.#measured = load;
  }

  /** Sets the observed state of a workload object. */
  work(name: string, object: object): void {
    this.#workload.set(name, { metadata: { name }, ...object });
  }

  set(more: Partial<LoadTestStatus>): void {
    this.#status = { ...this.#status, ...more };
  }

  edit(next: LoadTestSpec): void {
    this.#spec = next;
    this.#generation += 1;
  }

  wait(seconds: number): void {
    this.#now += seconds * 1_000;
  }

  /** Advances the clock from one wake-up to the next. */
  run(seconds: number): DeepReadonly<LoadTestStatus> {
    const end = this.#now + seconds * 1_000;
    while (this.settle().completionTime === undefined && this.#wakeAtMs !== undefined && this.#wakeAtMs <= end) {
      this.#now = this.#wakeAtMs;
    }
    this.#now = end;
    return this.settle();
  }

  #turn(): void {
    const decision = decideLoadTest({
      ...{
        spec: this.#spec,
        generation: this.#generation,
        namespace: "default",
        name: "load",
        status: this.#status,
        now: this.#now,
      },
      observe: ({ kind, name = "" }) => {
        if (kind === "Pod" && name === "" && this.#pods !== undefined) return this.#pods;
        const object = this.#workload.get(name);
        return object === undefined ? this.#target : { kind: "known", objects: [object], hasSeen: () => true };
      },
      webhookState: () => undefined,
    });
    this.#status = decision.status;
    this.#wakeAtMs = decision.wakeAtMs;
    this.events.push(...decision.events.map(({ reason }) => reason));
    if (decision.act === undefined) return;
    this.actions.push(decision.act);
    this.set(this.#outcomeOf(decision.act));
  }

  #outcomeOf(action: LoadTestAction): Partial<LoadTestStatus> {
    if (action === "apply-target") return { targetApplied: true };
    if (action === "apply-workload") return { workloadApplied: true };
    if (action === "read-progress") return { progress: { observedAt: iso(this.#now) } };
    if (action === "delete-workload") return { workloadCleaned: true };
    return { outputCollected: true, ...(this.#measured === undefined ? {} : { load: this.#measured }) };
  }
}

/** Starts a {@link SimulatedLoadTest}. */
export const simulate = (spec: LoadTestSpec = plain): SimulatedLoadTest => new SimulatedLoadTest(spec);
