import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";

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
      stdout.write(formatResult({ flags }, items, () => describe(items, allNamespaces, namespace)));
      return 0;
    } finally {
      await client.close();
    }
  },
};

function describe(jobs: readonly DeepReadonly<RhinoJob>[], allNamespaces: boolean, namespace: string | undefined): string {
  if (jobs.length === 0) {
    const where = allNamespaces ? "" : ` in namespace ${namespace ?? ""}`;
    return `No jobs${where}; create one: keelson mpi run -n 2 -- PROGRAM\n`;
  }
  const rows = jobs.map(({ metadata, spec, status }) => [
    ...(allNamespaces ? [metadata.namespace ?? ""] : []),
    metadata.name ?? "",
    String(spec.parallelism),
    status?.jobStatus ?? "Pending",
    String(status?.exitCode ?? ""),
    metadata.creationTimestamp ?? "",
  ]);
  const head = [...(allNamespaces ? ["NAMESPACE"] : []), "NAME", "PARALLELISM", "STATUS", "EXIT", "CREATED"];
  return renderTable([head, ...rows]);
}
