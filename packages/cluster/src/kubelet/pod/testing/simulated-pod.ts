import type { Container, PodObject, PodSpec } from "@keelson/api-machinery/kinds";
import { stepPod } from "../machine/pod-machine.ts";
import { newPodState, type PodEffect, type PodEvent, type PodState } from "../machine/pod-state.ts";
import { podStatus } from "../status/pod-status.ts";

/** A container with a command. */
export const main: Container = { name: "main", image: "x", command: ["run"] };

/** A Pod of container {@link main}. */
export function podOf(spec: Partial<PodSpec> = {}, metadata: PodObject["metadata"] = {}): PodObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "default", uid: "u", ...metadata },
    spec: { containers: [main], ...spec },
  };
}

/** Applies events to the state of a Pod and keeps the effects of the last one. */
export class SimulatedPod {
  state: PodState;
  effects: readonly PodEffect[] = [];
  now = 1_000_000;

  constructor(pod: PodObject) {
    this.state = newPodState(pod, this.now);
    this.apply({ kind: "tick" });
    this.apply({ kind: "prepared" });
  }

  apply(event: PodEvent): this {
    const step = stepPod(this.state, event, this.now);
    this.state = step.state;
    this.effects = step.effects;
    return this;
  }

  started(name = "main"): this {
    return this.apply({ kind: "started", name, attempt: this.record(name).attempt, at: this.now });
  }

  exited(exitCode: number, name = "main"): this {
    const { attempt, current } = this.record(name);
    const startedAt = current.kind === "running" ? current.startedAt : this.now;
    const reason = exitCode === 0 ? "Completed" : "Error";
    return this.apply({
      kind: "exited",
      name,
      finished: { attempt, exitCode, reason, message: "", startedAt, finishedAt: this.now },
    });
  }

  probed(probe: "startup" | "liveness" | "readiness", problem?: string): this {
    const { attempt } = this.record("main");
    return this.apply({ kind: "probed", name: "main", attempt, probe, ...(problem === undefined ? {} : { problem }) });
  }

  wait(ms: number): this {
    this.now += ms;
    return this.apply({ kind: "tick" });
  }

  deleted(seconds: number): this {
    const { pod } = this.state;
    const metadata = { ...pod.metadata, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: seconds };
    return this.apply({ kind: "changed", pod: { ...pod, metadata } });
  }

  record(name: string): PodState["containers"][number] {
    const found = this.state.containers.find((each) => each.name === name);
    if (found === undefined) throw new Error(`no container ${name}`);
    return found;
  }

  /** The effects except events. */
  get actions(): readonly string[] {
    return this.effects
      .filter(({ kind }) => kind !== "event")
      .map((effect) => ("name" in effect ? `${effect.kind} ${effect.name}` : effect.kind));
  }

  get status(): ReturnType<typeof podStatus> {
    return podStatus(this.state, { hostIP: "127.0.0.1", podIP: "127.64.0.1" }, this.now);
  }

  condition(type: string): string | undefined {
    return this.status.conditions?.find((condition) => condition.type === type)?.status;
  }
}
