import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson mpi list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list the jobs and how they go",
  flags: [namespaceFlag, { name: "all-namespaces", short: "A", description: "those of all namespaces" }, outputFlag],
  async run({ flags, stdout, signal, client: connect }) {
    const client = await connect();
    try {
      const everywhere = flags["all-namespaces"] === true;
      const namespace = everywhere ? undefined : namespaceFlag.read(flags);
      const { items } = await client.list(RhinoJob, { namespace, signal });
      stdout.write(formatResult({ flags }, items, () => describe(items, everywhere, namespace)));
      return 0;
    } finally {
      await client.close();
    }
  },
};

function describe(jobs: readonly DeepReadonly<RhinoJob>[], everywhere: boolean, namespace: string | undefined): string {
  if (jobs.length === 0) {
    const where = everywhere ? "" : ` in namespace ${namespace ?? ""}`;
    return `No jobs${where}; make one: keelson mpi run -n 2 -- PROGRAM\n`;
  }
  const rows = jobs.map(({ metadata, spec, status }) => [
    ...(everywhere ? [metadata.namespace ?? ""] : []),
    metadata.name ?? "",
    String(spec.parallelism),
    status?.jobStatus ?? "Pending",
    String(status?.exitCode ?? ""),
    metadata.creationTimestamp ?? "",
  ]);
  const head = [...(everywhere ? ["NAMESPACE"] : []), "NAME", "PARALLELISM", "STATUS", "EXIT", "CREATED"];
  return renderTable([head, ...rows]);
}
