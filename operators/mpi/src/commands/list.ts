import { type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { MPIJob } from "../api/mpi-job.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import type { JobView } from "../controllers/job-view.ts";
import { viewOfMpiJob } from "../controllers/mpi-job-view.ts";
import { namespaceFlag } from "./flags.ts";
import { ifReadable } from "./jobs/if-readable.ts";

/** `keelson mpi list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list jobs and their status",
  flags: [namespaceFlag, { name: "all-namespaces", short: "A", description: "list jobs in all namespaces" }, outputFlag],
  async run({ flags, stdout, signal, client: connect }) {
    const client = await connect();
    try {
      const allNamespaces = flags["all-namespaces"] === true;
      const namespace = allNamespaces ? undefined : namespaceFlag.read(flags);
      const { items } = await client.list(RhinoJob, { namespace, signal });
      const { items: mpiJobs = [] } = (await ifReadable(client.list(MPIJob, { namespace, signal }))) ?? {};
      const rows = [
        ...items.map((job) => rowOf(job, RhinoJob.kind, allNamespaces)),
        ...mpiJobs.map((job) => rowOf(viewOfMpiJob(job), MPIJob.kind, allNamespaces)),
      ];
      stdout.write(formatResult({ flags }, [...items, ...mpiJobs], () => describe(rows, allNamespaces, namespace)));
      return 0;
    } finally {
      await client.close();
    }
  },
};

function describe(rows: readonly string[][], allNamespaces: boolean, namespace: string | undefined): string {
  if (rows.length === 0) {
    const where = allNamespaces ? "" : ` in namespace ${namespace ?? ""}`;
    return `No jobs${where}; create one: keelson mpi run -n 2 -- PROGRAM\n`;
  }
  const head = [...(allNamespaces ? ["NAMESPACE"] : []), "NAME", "PARALLELISM", "STATUS", "EXIT", "CREATED", "KIND"];
  return renderTable([head, ...rows]);
}

function rowOf({ metadata, spec, status }: JobView, kind: string, allNamespaces: boolean): string[] {
  return [
    ...(allNamespaces ? [metadata.namespace ?? ""] : []),
    metadata.name ?? "",
    String(spec.parallelism),
    status?.jobStatus ?? "Pending",
    String(status?.exitCode ?? ""),
    metadata.creationTimestamp ?? "",
    kind,
  ];
}
