import { type CommandDefinition, renderTable } from "@keelson/controller";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag, text } from "./flags.ts";

/** `keelson mpi list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list the jobs and how they go",
  flags: [
    namespaceFlag,
    { name: "all-namespaces", short: "A", description: "those of all namespaces" },
    { name: "output", short: "o", value: "FORMAT", description: "table or json", default: "table" },
  ],
  async run({ flags, stdout, stderr, signal, client: connect }) {
    const output = text(flags, "output") ?? "table";
    if (output !== "table" && output !== "json") {
      stderr.write(`--output: ${JSON.stringify(output)} has to be table or json\n`);
      return 2;
    }
    const client = await connect();
    try {
      const everywhere = flags["all-namespaces"] === true;
      const namespace = everywhere ? undefined : text(flags, "namespace");
      const { items } = await client.list(RhinoJob, { namespace, signal });
      if (output === "json") {
        stdout.write(`${JSON.stringify(items, undefined, 2)}\n`);
        return 0;
      }
      if (items.length === 0) {
        const where = everywhere ? "" : ` in namespace ${namespace ?? ""}`;
        stdout.write(`No jobs${where}; make one: keelson mpi run -n 2 -- PROGRAM\n`);
        return 0;
      }
      const rows = items.map(({ metadata, spec, status }) => [
        ...(everywhere ? [metadata.namespace ?? ""] : []),
        metadata.name ?? "",
        String(spec.parallelism),
        status?.jobStatus ?? "Pending",
        String(status?.exitCode ?? ""),
        metadata.creationTimestamp ?? "",
      ]);
      const head = [...(everywhere ? ["NAMESPACE"] : []), "NAME", "PARALLELISM", "STATUS", "EXIT", "CREATED"];
      stdout.write(renderTable([head, ...rows]));
      return 0;
    } finally {
      await client.close();
    }
  },
};
