import { strict as assert } from "node:assert";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { isProgramError } from "../program/program-error.ts";
import type { ContractPod, EngineContractOptions, ParameterExample } from "./contract.ts";

const pollMs = 20;
const timeoutMs = 60_000;

/** The Pods of a case. */
export class Pods {
  readonly #pods: readonly ContractPod[];
  readonly #clock: Clock;

  constructor(pods: readonly ContractPod[], clock: Clock) {
    this.#pods = pods;
    this.#clock = clock;
  }

  at(index: number): ContractPod {
    const pod = this.#pods[index];
    assert.ok(pod, `startPods: returned ${this.#pods.length} Pods`);
    return pod;
  }

  /** Waits a moment before a request that failed is repeated. */
  pause(): Promise<void> {
    return sleep(this.#clock, pollMs);
  }

  /** Waits until a condition holds. A program that does not respond is asked again. */
  async until(what: string, isReached: () => Promise<boolean>): Promise<void> {
    const deadline = this.#clock.monotonic() + timeoutMs;
    for (;;) {
      try {
        if (await isReached()) return;
      } catch (error) {
        if (!isProgramError(error)) throw error;
      }
      assert.ok(this.#clock.monotonic() < deadline, `not within ${timeoutMs} ms: ${what}`);
      await sleep(this.#clock, pollMs);
    }
  }
}

/** A case for a number of Pods. */
export interface PodCase {
  readonly title: string;
  readonly pods: number;
  run(pods: Pods, options: EngineContractOptions): Promise<void>;
}

/** Makes a Pod the primary and waits until it accepts writes. */
export async function assignPrimary(pods: Pods, index: number, epoch: number): Promise<void> {
  const { engine, host } = pods.at(index);
  assert.deepEqual(await engine.assign({ role: "primary", primaryHost: host, epoch }), { ok: true });
  await hasRole(pods, index, "primary");
}

/** Makes a Pod a replica and waits until it is in sync. */
export async function assignReplica(pods: Pods, index: number, primary: number, epoch: number): Promise<void> {
  const primaryHost = pods.at(primary).host;
  assert.deepEqual(await pods.at(index).engine.assign({ role: "replica", primaryHost, epoch }), { ok: true });
  await hasRole(pods, index, "replica");
}

/** Waits until a Pod has a role and is in sync. */
export function hasRole(pods: Pods, index: number, wanted: "primary" | "replica"): Promise<void> {
  return pods.until(`Pod ${index} is a ${wanted} in sync`, async () => {
    const { role, info } = await pods.at(index).engine.role();
    return role === wanted && info["isInSync"] === "true";
  });
}

/** Parameters of some examples. */
export function parametersOf(...examples: readonly ParameterExample[]): Readonly<Record<string, string>> {
  return Object.fromEntries(examples.map(({ name, value }) => [name, value]));
}
