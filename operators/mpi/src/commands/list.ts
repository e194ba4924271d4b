import type { CommandDefinition } from "@keelson/controller";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag, text } from "./flags.ts";

/** `keelson mpi list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list the jobs and how they go",
  flags: [namespaceFlag, { name: "all-namespaces", description: "those of all namespaces" }],
  async run({ flags, stdout, signal, client: connect }) {
    const client = await connect();
    try {
      const everywhere = flags["all-namespaces"] === true;
      const { items } = await client.list(RhinoJob, { namespace: everywhere ? undefined : text(flags, "namespace"), signal });
      const rows = items.map(({ metadata, spec, status }) => [
        ...(everywhere ? [metadata.namespace ?? ""] : []),
        metadata.name ?? "",
        String(spec.parallelism),
        status?.jobStatus ?? "Pending",
        String(status?.exitCode ?? ""),
        metadata.creationTimestamp ?? "",
      ]);
      const head = [...(everywhere ? ["NAMESPACE"] : []), "NAME", "PARALLELISM", "STATUS", "EXIT", "CREATED"];
      stdout.write(table([head, ...rows]));
      return 0;
    } finally {
      await client.close();
    }
  },
};

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("   ")
          .trimEnd()}\n`,
    )
    .join("");
}
