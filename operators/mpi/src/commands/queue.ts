import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { textFlag } from "@keelson/operator/flags";
import { MPIJob } from "../api/mpi-job.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import { ifReadable } from "./jobs/if-readable.ts";

type Job = DeepReadonly<RhinoJob> | DeepReadonly<MPIJob>;

const queueFlag = textFlag({ name: "queue", value: "QUEUE", description: "list jobs of this queue only" });

/** `keelson mpi queue`. */
export const queueCommand: CommandDefinition = {
  name: "queue",
  description: "list the jobs of all namespaces that wait for admission, in order, and why they wait",
  flags: [queueFlag, outputFlag],
  async run({ flags, stdout, signal, client: connect }) {
    const queue = queueFlag.read(flags);
    const client = await connect();
    try {
      const jobs: readonly Job[] = [
        ...(await client.list(RhinoJob, { signal })).items,
        ...((await ifReadable(client.list(MPIJob, { signal })))?.items ?? []),
      ];
      const waiting = jobs
        .filter(({ status }) => status?.queue?.reason !== undefined && (queue === undefined || status.queue.name === queue))
        .sort((a, b) => positionOf(a) - positionOf(b));
      stdout.write(formatResult({ flags }, waiting, () => describe(waiting)));
      return 0;
    } finally {
      await client.close();
    }
  },
};

const positionOf = ({ status }: Job): number => status?.queue?.position ?? Number.MAX_SAFE_INTEGER;

function describe(jobs: readonly Job[]): string {
  if (jobs.length === 0) return "No jobs wait for admission\n";
  const rows = jobs.map(({ metadata, kind, status }) => [
    String(status?.queue?.position ?? "-"),
    metadata.namespace ?? "",
    metadata.name ?? "",
    kind,
    status?.queue?.name ?? "",
    status?.queue?.reason ?? "",
    status?.queue?.message ?? "",
    status?.queue?.queuedAt ?? "",
  ]);
  return renderTable([["POSITION", "NAMESPACE", "NAME", "KIND", "QUEUE", "REASON", "MESSAGE", "SINCE"], ...rows]);
}
