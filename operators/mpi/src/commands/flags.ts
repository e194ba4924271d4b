import { textFlag } from "@keelson/operator/flags";

const namespace = { name: "namespace", value: "NAMESPACE", description: "namespace of the job", default: "default" } as const;

/** `--namespace` of every command except `run`. */
export const namespaceFlag = textFlag({ ...namespace, short: "n" });

/** `--namespace` of `keelson mpi run`, where `-n` is the number of ranks, as with mpirun. */
export const runNamespaceFlag = textFlag(namespace);
