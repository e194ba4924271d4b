import { randomBytes } from "node:crypto";
import { basename, resolve } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { choiceFlag, countFlag, isUsageError, switchFlag, textFlag, UsageError } from "@keelson/operator/flags";
import { RhinoJob, type RhinoJobSpec } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";
import { followLogs } from "./follow-logs.ts";

/** Exit status after Ctrl-C, as in a shell. */
const interruptedExitCode = 130;

const flags = {
  np: countFlag({ name: "np", short: "n", value: "RANKS", description: "number of ranks", min: 1, default: "1" }),
  name: textFlag({
    name: "name",
    value: "NAME",
    description: "name of the job (default: the program's name with a random suffix)",
  }),
  namespace: namespaceFlag,
  image: textFlag({
    name: "image",
    value: "IMAGE",
    description: "image with the program and its MPI (in a cluster)",
    default: "local",
  }),
  mpi: choiceFlag({
    name: "mpi",
    value: "MPI",
    description: "MPI implementation; Auto selects the one that the program is linked with",
    choices: ["Auto", "OpenMPI", "MPICH"],
    default: "Auto",
  }),
  ttl: countFlag({
    name: "ttl",
    value: "SECONDS",
    description: "time until the finished job is deleted; 0 keeps it",
    default: "600",
  }),
  workdir: textFlag({
    name: "workdir",
    value: "DIR",
    description: "working directory of the program (default: the current one; with --image, the image's)",
  }),
  server: textFlag({ name: "server", value: "HOST", description: "NFS server; the workers mount its --dir at /data" }),
  dir: textFlag({ name: "dir", value: "PATH", description: "path on --server" }),
  startDeadline: countFlag({
    name: "start-deadline",
    value: "SECONDS",
    description: "fail if not all workers have joined after this time",
    min: 1,
  }),
  deadline: countFlag({ name: "deadline", value: "SECONDS", description: "fail if the job takes longer than this", min: 1 }),
  detach: switchFlag({ name: "detach", description: "print the name of the job and do not wait for its end" }),
};

/** `keelson mpi run -- PROGRAM ...`: creates a RhinoJob, streams its output and exits with its status. */
export const runCommand: CommandDefinition = {
  name: "run",
  description: "run a program in parallel ranks, stream its output and exit with its status",
  args: ["PROGRAM", "[ARGS...]"],
  flags: Object.values(flags),
  run: async (context) => {
    try {
      return await run(context);
    } catch (error) {
      if (!isUsageError(error)) throw error;
      context.stderr.write(`${error.message}\n`);
      return 2;
    }
  },
};

async function run(context: CommandContext): Promise<number> {
  const { stdout, stderr, signal } = context;
  const namespace = flags.namespace.read(context.flags);
  const { name, spec } = jobOfFlags(context, process.cwd(), randomBytes(3).toString("hex"));
  const client = await context.client();
  try {
    const created = await client.create(RhinoJob, { metadata: { name, namespace }, spec }, { signal });
    if (flags.detach.read(context.flags)) {
      stdout.write(`${name}\n`);
      return 0;
    }
    let last = "";
    const onChange = (job: DeepReadonly<RhinoJob>): void => {
      const line = `${name}: ${job.status?.jobStatus ?? "Pending"}${job.status?.message ? `: ${job.status.message}` : ""}`;
      if (line !== last) stderr.write(`${line}\n`);
      last = line;
    };
    try {
      const { job } = await followLogs(client, { job: created, workers: false, signal, out: stdout, onChange });
      if (job !== undefined) return job.status?.jobStatus === "Completed" ? 0 : job.status?.exitCode || 1;
      stderr.write(`${name} was deleted before it ended\n`);
      return 1;
    } catch (error) {
      if (!signal.aborted) throw error;
      // An interrupted mpiexec stops its ranks too.
      await client.delete(RhinoJob, { namespace, name }, { propagationPolicy: "Background" });
      stderr.write(`${name}: interrupted and deleted\n`);
      return interruptedExitCode;
    }
  } finally {
    await client.close();
  }
}

/**
 * The job that the command's flags describe. `suffix` makes its name unique.
 *
 * **Errors**: {@link UsageError}, which names the flag.
 */
export function jobOfFlags(
  { args, flags: values }: Pick<CommandContext, "args" | "flags">,
  folder: string,
  suffix: string,
): { readonly name: string; readonly spec: RhinoJobSpec } {
  const [appExec, ...appArgs] = args;
  if (appExec === undefined) throw new UsageError("missing program; example: keelson mpi run --np 2 -- ./pi");
  const image = flags.image.read(values);
  const mpiImplementation = flags.mpi.read(values);
  const dataServer = flags.server.read(values);
  const dataPath = flags.dir.read(values);
  if ((dataServer === undefined) !== (dataPath === undefined)) throw new UsageError("--server and --dir must be set together");
  const workdir = flags.workdir.read(values);
  const workingDir = image === "local" ? resolve(folder, workdir ?? ".") : workdir;
  const startDeadlineSeconds = flags.startDeadline.read(values);
  const activeDeadlineSeconds = flags.deadline.read(values);
  return {
    name: flags.name.read(values) ?? `${nameOf(appExec)}-${suffix}`,
    spec: {
      image,
      parallelism: flags.np.read(values),
      ttl: flags.ttl.read(values),
      appExec,
      ...(appArgs.length > 0 ? { appArgs } : {}),
      memoryAllocationMode: "FixedPerCoreMemory",
      memoryAllocationSize: 2,
      mpiImplementation,
      ...(workingDir === undefined ? {} : { workingDir }),
      ...(dataServer === undefined || dataPath === undefined ? {} : { dataServer, dataPath }),
      ...(startDeadlineSeconds === undefined ? {} : { startDeadlineSeconds }),
      ...(activeDeadlineSeconds === undefined ? {} : { activeDeadlineSeconds }),
    },
  };
}

/** A program's name as a valid object name. */
function nameOf(program: string): string {
  const name = basename(program)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");
  return name.slice(0, 30).replace(/-+$/, "") || "mpi";
}
