import { Deployment, HorizontalPodAutoscaler, Pod } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import type { Cached } from "../workload/write.ts";
import { decideAutoscaler, type ObservedAutoscaler } from "./autoscaler-decision.ts";
import type { PodMetricsObject } from "./resource-usage.ts";
import type { ScalingHistory } from "./scaling-limits.ts";

const minute = 60_000;
const cpuMetric = { type: "Resource", resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 50 } } };
const memoryMetric = {
  type: "Resource",
  resource: { name: "memory", target: { type: "AverageValue", averageValue: "100Mi" } },
};

/** A Deployment of Pods that request 100m each, and an autoscaler with a target of 50 %. */
class Scaled {
  readonly world = new World();
  failure: string | undefined;
  /** The memory usage of every Pod. */
  memory = "10Mi";
  #usage: Readonly<Record<string, string>> = {};
  #history: ScalingHistory = { recommendations: [], events: [] };

  constructor(replicas: number, spec: object = {}) {
    this.world.create(Deployment, { metadata: { name: "web" }, spec: { replicas }, status: { replicas } });
    this.world.create(HorizontalPodAutoscaler, {
      metadata: { name: "web" },
      spec: {
        scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "web" },
        minReplicas: 1,
        maxReplicas: 10,
        metrics: [cpuMetric],
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
      this.#history = decision.history;
      return decision;
    });
    return this.replicas;
  }

  get replicas(): number | undefined {
    return this.world.get(Deployment, "web").spec.replicas;
  }

  /** Type, status and reason of the conditions. */
  get conditions(): readonly string[] {
    const { conditions = [] } = this.world.get(HorizontalPodAutoscaler, "web").status ?? {};
    return conditions.map(({ type, status, reason }) => `${type} ${status} ${reason}`);
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
        containers: [{ name: "c", usage: { cpu, memory: this.memory } }],
      }),
    );
    return {
      autoscaler: world.get(HorizontalPodAutoscaler, "web"),
      target: { type: Deployment, object: world.get(Deployment, "web") },
      pods: world.list(Pod),
      metrics: failure === undefined ? metrics : { failure },
      history: this.#history,
    };
  }
}

describe("a HorizontalPodAutoscaler", () => {
  test("adds Pods in proportion to their usage", () => {
    const scaled = new Scaled(2).pod("a", "90m").pod("b", "60m");
    expect(scaled.sync()).toBe(3);
    const lastScaleTime = formatTime(scaled.world.now);
    expect(scaled.status).toMatchObject({
      currentReplicas: 2,
      desiredReplicas: 3,
      currentMetrics: [
        { type: "Resource", resource: { name: "cpu", current: { averageUtilization: 75, averageValue: "75m" } } },
      ],
      lastScaleTime,
    });
    expect(scaled.conditions).toEqual([
      "ScalingActive True ValidMetricFound",
      "ScalingLimited False DesiredWithinRange",
      "AbleToScale True SucceededRescale",
    ]);
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
    expect(unknown.status).toMatchObject({ currentReplicas: 1, desiredReplicas: 1, currentMetrics: null });
    expect(unknown.conditions).toContain("ScalingActive False FailedGetResourceMetric");
  });

  test("follows the metric that calls for the most Pods", () => {
    const scaled = new Scaled(2, { metrics: [cpuMetric, memoryMetric] }).pod("a", "50m").pod("b", "50m");
    scaled.memory = "200Mi";
    expect(scaled.sync()).toBe(4);
    expect(scaled.world.events).toEqual(["SuccessfulRescale: New size: 4; reason: memory resource above target"]);
  });

  test("counts a container alone", () => {
    const target = { type: "Utilization", averageUtilization: 50 };
    const containerResource = { name: "cpu", container: "c", target };
    const containers = [{ name: "c", resources: { requests: { cpu: "100m" } } }, { name: "sidecar" }];
    const scaled = new Scaled(1, { metrics: [{ type: "ContainerResource", containerResource }] });
    expect(scaled.pod("a", "100m", { spec: { containers } }).sync()).toBe(2);
  });

  test("does not remove Pods while a metric is unknown", () => {
    const pods = { type: "Pods", pods: { metric: { name: "x" }, target: { type: "AverageValue", averageValue: "1" } } };
    const low = new Scaled(4, { metrics: [cpuMetric, pods] }).pod("a", "1m").pod("b", "1m").pod("c", "1m").pod("d", "1m");
    expect(low.sync()).toBe(4);
    expect(low.world.events[0]).toBe(
      "FailedGetPodsMetric: unable to get pods metric: no custom metrics API (custom.metrics.k8s.io) registered",
    );
    expect(new Scaled(1, { metrics: [cpuMetric, pods] }).pod("a", "100m").sync()).toBe(2);
  });

  test("scales no faster than its policies allow, over their periods", () => {
    const behavior = {
      scaleUp: {
        stabilizationWindowSeconds: 0,
        selectPolicy: "Max",
        policies: [{ type: "Pods", value: 1, periodSeconds: 60 }],
      },
    };
    const scaled = new Scaled(1, { behavior }).pod("a", "900m");
    expect(scaled.sync()).toBe(2);
    expect(scaled.conditions).toContain("ScalingLimited True ScaleUpLimit");
    scaled.pod("b", "900m");
    expect(scaled.sync()).toBe(2);
    scaled.world.now += minute;
    expect(scaled.sync()).toBe(3);
  });

  test("uses the stabilization window of its behavior, and can be kept from removing Pods", () => {
    const policies = [{ type: "Percent", value: 100, periodSeconds: 15 }];
    const quick = { scaleDown: { stabilizationWindowSeconds: 30, selectPolicy: "Max", policies } };
    const scaled = new Scaled(3, { behavior: quick }).pod("a", "10m").pod("b", "10m").pod("c", "10m");
    expect(scaled.sync()).toBe(3);
    scaled.world.now += 31_000;
    expect(scaled.sync()).toBe(1);
    const never = { scaleDown: { stabilizationWindowSeconds: 0, selectPolicy: "Disabled", policies } };
    const kept = new Scaled(3, { behavior: never }).pod("a", "10m").pod("b", "10m").pod("c", "10m");
    kept.sync();
    kept.world.now += minute;
    expect(kept.sync()).toBe(3);
  });
});
