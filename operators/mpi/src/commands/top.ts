import { type DeepReadonly, isNotFound, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { formatQuantity, parseQuantity } from "@keelson/api-machinery/quantity";
import { type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { labels } from "../api/names.ts";
import { findJob, jobNotFound } from "./jobs/find-job.ts";
import { namespaceFlag } from "./flags.ts";

/** metrics.k8s.io/v1beta1 PodMetrics. */
interface PodMetricsObject extends KubernetesObject {
  containers?: { name: string; usage: Record<string, string> }[];
}

const PodMetrics: ResourceType<PodMetricsObject> = {
  group: "metrics.k8s.io",
  version: "v1beta1",
  kind: "PodMetrics",
  plural: "pods",
  scope: "Namespaced",
};

/** What a Pod of a job uses. */
interface PodUse {
  readonly job: string;
  readonly pod: string;
  readonly node: string;
  /** Undefined while the Pod has not been measured. */
  readonly cpu: string | undefined;
  readonly memory: string | undefined;
}

/** `keelson mpi top [NAME]`. */
export const topCommand: CommandDefinition = {
  name: "top",
  description: "show the CPU and memory that the running Pods of jobs use",
  args: ["[NAME]"],
  flags: [namespaceFlag, outputFlag],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const namespace = namespaceFlag.read(flags);
    const [name] = args;
    const client = await connect();
    try {
      const job = name === undefined ? undefined : await findJob(client, { namespace, name }, signal);
      if (name !== undefined && job === undefined) {
        stderr.write(jobNotFound({ namespace, name }));
        return 1;
      }
      const labelSelector = job === undefined ? labels.uid : `${labels.uid}=${job.metadata.uid}`;
      const { items } = await client.list(Pod, { namespace, labelSelector, signal });
      const pods = items.filter(({ status }) => status?.phase === "Running");
      const metrics = await client.list(PodMetrics, { namespace, signal });
      const usage = new Map(metrics.items.map((each) => [each.metadata.name, each]));
      const uses = pods.map((pod) => useOf(pod, usage.get(pod.metadata.name)));
      stdout.write(formatResult({ flags }, uses, () => describe(uses)));
      return 0;
    } catch (error) {
      if (!isNotFound(error)) throw error;
      stderr.write("the cluster does not serve metrics.k8s.io; install metrics-server\n");
      return 1;
    } finally {
      await client.close();
    }
  },
};

function useOf({ metadata, spec }: DeepReadonly<PodObject>, metrics: DeepReadonly<PodMetricsObject> | undefined): PodUse {
  const sum = (resource: string, format: "DecimalSI" | "BinarySI"): string | undefined => {
    if (metrics === undefined) return undefined;
    const nanos = (metrics.containers ?? []).reduce(
      (total, { usage }) => total + parseQuantity(usage[resource] ?? "0").nanos,
      0n,
    );
    // Whole millicores and mebibytes, as `kubectl top` shows them.
    const unit = format === "DecimalSI" ? 1_000_000n : 1_000_000_000n * 1024n * 1024n;
    return formatQuantity({ nanos: ((nanos + unit - 1n) / unit) * unit, format });
  };
  return {
    job: metadata.labels?.[labels.app] ?? "",
    pod: metadata.name ?? "",
    node: spec.nodeName ?? "",
    cpu: sum("cpu", "DecimalSI"),
    memory: sum("memory", "BinarySI"),
  };
}

function describe(uses: readonly PodUse[]): string {
  if (uses.length === 0) return "No running Pods of jobs\n";
  const rows = uses.map(({ job, pod, node, cpu = "-", memory = "-" }) => [job, pod, node, cpu, memory]);
  return renderTable([["JOB", "POD", "NODE", "CPU", "MEMORY"], ...rows]);
}
