import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, type ListedObject, listFlagsOf, listObjects } from "@keelson/operator";
import { MPIJob } from "../api/mpi-job.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import { viewOfMpiJob } from "../controllers/mpi-job-view.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson mpi list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list jobs and their status",
  flags: listFlagsOf(namespaceFlag),
  run: (context) =>
    listObjects(context, {
      types: [RhinoJob],
      optionalTypes: [MPIJob],
      namespaceFlag,
      columns: ["PARALLELISM", "STATUS", "EXIT", "CREATED", "KIND"],
      cells: () => Promise.resolve(cellsOf),
      empty: (namespace) =>
        `No jobs${namespace === undefined ? "" : ` in namespace ${namespace}`}; create one: keelson mpi run -n 2 -- PROGRAM`,
    }),
};

function cellsOf(object: ListedObject): readonly string[] {
  const { metadata, spec, status } =
    object.kind === MPIJob.kind ? viewOfMpiJob(object as DeepReadonly<MPIJob>) : (object as DeepReadonly<RhinoJob>);
  return [
    String(spec.parallelism),
    status?.jobStatus ?? "Pending",
    String(status?.exitCode ?? ""),
    metadata.creationTimestamp ?? "",
    object.kind,
  ];
}
