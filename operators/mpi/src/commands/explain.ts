import type { DeepReadonly } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { type CommandDefinition, renderTable } from "@keelson/operator";
import { labels } from "../api/names.ts";
import type { JobView } from "../controllers/job-view.ts";
import { exitCodeOf, podTrouble, terminationMessage } from "../controllers/pod-trouble.ts";
import { findJob, jobNotFound } from "./jobs/find-job.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson mpi explain NAME`. */
export const explainCommand: CommandDefinition = {
  name: "explain",
  description: "show why a job is in its state: conditions, attempts and every Pod with its problem",
  args: ["NAME"],
  flags: [namespaceFlag],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const key = { namespace: namespaceFlag.read(flags), name: args[0] ?? "" };
    const client = await connect();
    try {
      const job = await findJob(client, key, signal);
      if (job === undefined) {
        stderr.write(jobNotFound(key));
        return 1;
      }
      const labelSelector = `${labels.uid}=${job.metadata.uid}`;
      const { items } = await client.list(Pod, { namespace: key.namespace, labelSelector, signal });
      stdout.write(describe(job, items));
      return 0;
    } finally {
      await client.close();
    }
  },
};

function describe({ metadata, status = {} }: JobView, pods: readonly DeepReadonly<PodObject>[]): string {
  const { jobStatus = "Pending", message = "", attempt = 1, failures = 0, conditions = [] } = status;
  const lines = [
    `${metadata.name}: ${jobStatus}${message === "" ? "" : `: ${message}`}`,
    `attempt ${attempt}, ${failures} failed before`,
    "",
  ];
  const conditionRows = conditions.map((each) => [each.type, each.status, each.reason, each.lastTransitionTime]);
  const podRows = pods.map((pod) => [
    pod.metadata.name ?? "",
    pod.status?.phase ?? "",
    pod.spec.nodeName ?? "",
    String(exitCodeOf(pod) ?? ""),
    problemOf(pod),
  ]);
  const tables = [
    renderTable([["CONDITION", "STATUS", "REASON", "SINCE"], ...conditionRows]),
    ...(podRows.length === 0 ? [] : [renderTable([["POD", "PHASE", "NODE", "EXIT", "PROBLEM"], ...podRows])]),
  ];
  return `${lines.join("\n")}${tables.join("\n")}`;
}

function problemOf(pod: DeepReadonly<PodObject>): string {
  const trouble = podTrouble(pod);
  if (trouble !== undefined) return `${trouble.reason}${trouble.message === "" ? "" : `: ${trouble.message}`}`;
  return terminationMessage(pod) ?? "";
}
