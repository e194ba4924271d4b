import { Deployment, HorizontalPodAutoscaler, Pod } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import type { Cached } from "../workload/write.ts";
import { decideAutoscaler, type ObservedAutoscaler, type Recommendation } from "./autoscaler-decision.ts";
import type { PodMetricsObject } from "./cpu-utilization.ts";

const minute = 60_000;

/** A Deployment of Pods that request 100m each, and an autoscaler with a target of 50 %. */
class Scaled {
  readonly world = new World();
  failure: string | undefined;
  #usage: Readonly<Record<string, string>> = {};
  #recommendations: readonly Recommendation[] = [];

  constructor(replicas: number, spec: object = {}) {
    this.world.create(Deployment, { metadata: { name: "web" }, spec: { replicas }, status: { replicas } });
    this.world.create(HorizontalPodAutoscaler, {
      metadata: { name: "web" },
      spec: {
        scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "web" },
        minReplicas: 1,
        maxReplicas: 10,
        targetCPUUtilizationPercentage: 50,
        ...spec,
      },
    });
  }

  /** Adds a Pod that has been ready for an hour. Without `cpu` its usage is unknown. */
  pod(name: string, cpu: string | undefined, body: { spec?: object; status?: object } = {}): this {
    const startTime = formatTime(this.world.now - 60 * minute);
    this.world.create(Pod, {
      metadata: { name },
      spec: { containers: [{ name: "c", resources: { requests: { cpu: "100m" } } }] },
      status: { phase: "Running", startTime, conditions: [{ type: "Ready", status: "True", lastTransitionTime: startTime }] },
      ...body,
    });
    if (cpu !== undefined) this.use({ ...this.#usage, [name]: cpu });
    return this;
  }

  use(usage: Readonly<Record<string, string>>): this {
    this.#usage = usage;
    return this;
  }

  /** Applies one decision and returns the number of replicas. */
  sync(): number | undefined {
    const { world } = this;
    let decision: ReturnType<typeof decideAutoscaler> | undefined;
    world.settle(() => {
      if (decision !== undefined) return { writes: [] };
      decision = decideAutoscaler(this.#observe(), world.now);
      this.#recommendations = decision.recommendations;
      return decision;
    });
    return this.replicas;
  }

  get replicas(): number | undefined {
    return this.world.get(Deployment, "web").spec.replicas;
  }

  get status(): unknown {
    return this.world.get(HorizontalPodAutoscaler, "web").status;
  }

  #observe(): ObservedAutoscaler {
    const { world, failure } = this;
    const metrics = Object.entries(this.#usage).map(
      ([name, cpu]): Cached<PodMetricsObject> => ({
        apiVersion: "metrics.k8s.io/v1beta1",
        kind: "PodMetrics",
        metadata: { name },
        timestamp: formatTime(world.now),
        window: "15s",
        containers: [{ name: "c", usage: { cpu } }],
      }),
    );
    return {
      autoscaler: world.get(HorizontalPodAutoscaler, "web"),
      target: { type: Deployment, object: world.get(Deployment, "web") },
      pods: world.list(Pod),
      metrics: failure === undefined ? metrics : { failure },
      recommendations: this.#recommendations,
    };
  }
}

describe("a HorizontalPodAutoscaler", () => {
  test("adds Pods in proportion to their usage", () => {
    const scaled = new Scaled(2).pod("a", "90m").pod("b", "60m");
    expect(scaled.sync()).toBe(3);
    const lastScaleTime = formatTime(scaled.world.now);
    expect(scaled.status).toEqual({
      currentReplicas: 2,
      desiredReplicas: 3,
      currentCPUUtilizationPercentage: 75,
      lastScaleTime,
    });
    expect(scaled.world.events).toEqual([
      "SuccessfulRescale: New size: 3; reason: cpu resource utilization (percentage of request) above target",
    ]);
  });

  test("tolerates 10 % around the target", () => {
    expect(new Scaled(1).pod("a", "55m").sync()).toBe(1);
    expect(new Scaled(1).pod("a", "56m").sync()).toBe(2);
  });

  test("at most doubles the Pods in one step, or grows to 4, up to maxReplicas", () => {
    expect(new Scaled(1).pod("a", "900m").sync()).toBe(4);
    expect(new Scaled(3).pod("a", "900m").pod("b", "900m").pod("c", "900m").sync()).toBe(6);
    expect(new Scaled(2, { maxReplicas: 3 }).pod("a", "900m").pod("b", "900m").sync()).toBe(3);
  });

  test("removes Pods once usage was low for 5 minutes, down to minReplicas", () => {
    const scaled = new Scaled(3, { minReplicas: 2 }).pod("a", "10m").pod("b", "10m").pod("c", "10m");
    expect(scaled.sync()).toBe(3);
    scaled.world.now += 4 * minute;
    expect(scaled.sync()).toBe(3);
    scaled.world.now += minute;
    expect(scaled.sync()).toBe(2);
    expect(scaled.world.events).toEqual(["SuccessfulRescale: New size: 2; reason: All metrics below target"]);
  });

  test("corrects a count out of bounds without metrics, and leaves 0 alone", () => {
    expect(new Scaled(20).sync()).toBe(10);
    expect(new Scaled(2, { minReplicas: 3 }).sync()).toBe(3);
    expect(new Scaled(0).sync()).toBe(0);
  });

  test("assumes that Pods without metrics use nothing when it adds Pods, and their request when it removes some", () => {
    expect(new Scaled(2).pod("a", "90m").pod("b", undefined).sync()).toBe(2);
    expect(new Scaled(2).pod("a", "150m").pod("b", undefined).sync()).toBe(3);
    expect(new Scaled(2).pod("a", "10m").pod("b", undefined).sync()).toBe(2);
  });

  test("ignores the usage of Pods that start", () => {
    const status = { phase: "Pending" };
    expect(new Scaled(2).pod("a", "90m").pod("b", "500m", { status }).sync()).toBe(2);
  });

  test("says which container has no request, and why metrics are missing", () => {
    const scaled = new Scaled(1).pod("a", "10m", { spec: { containers: [{ name: "c" }] } });
    expect(scaled.sync()).toBe(1);
    const missing = "failed to get cpu utilization: missing request for cpu in container c of Pod a";
    expect(scaled.world.events).toEqual([
      `FailedGetResourceMetric: ${missing}`,
      `FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: ${missing}`,
    ]);
    const unknown = new Scaled(1).pod("a", "10m");
    unknown.failure = "no metrics API";
    unknown.sync();
    expect(unknown.world.events[0]).toBe("FailedGetResourceMetric: failed to get cpu utilization: no metrics API");
    expect(unknown.status).toEqual({ currentReplicas: 1, desiredReplicas: 1 });
  });
});
