import type { KubernetesObject } from "@keelson/api-machinery";
import { type Clock, formatTime, type Timer } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import type { PodView } from "../pod/pod-view.ts";
import { createNodeUsage, type NodeUsage } from "./node-usage.ts";
import { type ContainerFigures, type ResourceFigures, resourceText } from "./resource-text.ts";

/** A running container, as metrics see it. */
export interface MeasuredContainer {
  readonly pod: PodView;
  readonly name: string;
  readonly program: Program;
}

/** Objects of metrics.k8s.io/v1beta1. */
export interface MetricsObjects {
  readonly nodes: readonly KubernetesObject[];
  readonly pods: readonly KubernetesObject[];
}

/** Options of {@link ResourceMetrics}. */
export interface ResourceMetricsOptions {
  readonly nodeName: string;
  readonly clock: Clock;
  /** The containers that run now. */
  readonly containers: () => readonly MeasuredContainer[];
  /** Default: the usage of this machine. */
  readonly nodeUsage?: () => NodeUsage;
}

/** The interval of samples, as in metrics-server. CPU usage is an average over it. */
const windowMs = 15_000;

/** What a container has used since its first sample. */
interface ContainerTotal {
  readonly program: Program;
  readonly startSeconds: number;
  readonly cpuSeconds: number;
}

interface PodSample {
  readonly pod: PodView;
  readonly containers: { readonly name: string; readonly usage: Readonly<Record<string, string>> }[];
}

/** Samples the resource usage of a node and its containers every 15 s, as the metrics API shows it. Runs until `stop`. */
export class ResourceMetrics {
  readonly #options: ResourceMetricsOptions;
  readonly #nodeUsage: () => NodeUsage;
  #objects: MetricsObjects = { nodes: [], pods: [] };
  #figures: ResourceFigures | undefined;
  #totals: ReadonlyMap<string, ContainerTotal> = new Map();
  #sampledAt: number;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: ResourceMetricsOptions) {
    this.#options = options;
    this.#nodeUsage = options.nodeUsage ?? createNodeUsage();
    this.#sampledAt = options.clock.monotonic();
    this.#arm();
  }

  /** The newest sample. Empty until the first one, 15 s after the start. */
  get objects(): MetricsObjects {
    return this.#objects;
  }

  /** The newest sample, as the kubelet's `/metrics/resource`. */
  get text(): string {
    return resourceText(this.#figures);
  }

  /** Takes a sample now. */
  async sample(): Promise<void> {
    const { nodeName, clock, containers } = this.#options;
    const pods = new Map<string, PodSample>();
    const totals = new Map<string, ContainerTotal>();
    const figures: ContainerFigures[] = [];
    const sampledAt = clock.monotonic();
    const elapsedSeconds = (sampledAt - this.#sampledAt) / 1_000;
    for (const { pod, name, program } of containers()) {
      const stats = await program.stats().catch(() => undefined);
      if (stats === undefined) continue;
      const uid = pod.metadata.uid ?? "";
      const sample = pods.get(uid) ?? { pod, containers: [] };
      pods.set(uid, sample);
      sample.containers.push({ name, usage: usageOf(stats.cpuMillis, stats.memoryBytes) });
      const key = `${uid}/${name}`;
      const before = this.#totals.get(key);
      const last = before?.program === program ? before : { startSeconds: clock.now() / 1_000, cpuSeconds: 0 };
      // Sums of averages: processes that have ended do not count in the stats of a later sample.
      const total = { ...last, program, cpuSeconds: last.cpuSeconds + (stats.cpuMillis / 1_000) * elapsedSeconds };
      totals.set(key, total);
      const { name: podName = "", namespace = "" } = pod.metadata;
      figures.push({
        ...{ namespace, pod: podName, container: name, memoryBytes: stats.memoryBytes },
        ...{ cpuSeconds: total.cpuSeconds, startSeconds: total.startSeconds },
      });
    }
    this.#totals = totals;
    this.#sampledAt = sampledAt;
    const timestamp = formatTime(clock.now());
    const common = { apiVersion: "metrics.k8s.io/v1beta1", timestamp, window: `${windowMs / 1_000}s` };
    const { cpuMillis, cpuSeconds, memoryBytes } = this.#nodeUsage();
    this.#figures = { at: clock.now(), node: { cpuSeconds, memoryBytes }, containers: figures };
    const node = { name: nodeName, creationTimestamp: timestamp };
    this.#objects = {
      nodes: [{ ...common, kind: "NodeMetrics", metadata: node, usage: usageOf(cpuMillis, memoryBytes) } as KubernetesObject],
      pods: [...pods.values()].map(({ pod, containers: measured }) => {
        const { name = "", namespace = "", labels = {} } = pod.metadata;
        const metadata = { name, namespace, labels: { ...labels }, creationTimestamp: timestamp };
        return { ...common, kind: "PodMetrics", metadata, containers: measured } as KubernetesObject;
      }),
    };
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #arm(): void {
    if (this.#isStopped) return;
    const run = (): void => void this.sample().finally(() => this.#arm());
    this.#timer = this.#options.clock.setTimer(windowMs, run, { background: true });
  }
}

function usageOf(cpuMillis: number, memoryBytes: number): Readonly<Record<string, string>> {
  return { cpu: `${Math.round(cpuMillis)}m`, memory: `${Math.round(memoryBytes / 1_024)}Ki` };
}
