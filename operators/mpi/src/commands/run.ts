import { randomBytes } from "node:crypto";
import { basename, resolve } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { RhinoJob, type RhinoJobSpec } from "../api/rhino-job.ts";
import { CommandFlagError, count, namespaceFlag, text } from "./flags.ts";
import { followLogs } from "./follow-logs.ts";

/** Exit status after Ctrl-C, as shells have it. */
const interruptedExitCode = 130;

/** `keelson mpi run -- PROGRAM ...`: makes a RhinoJob, waits for its end, and ends as the program did. */
export const runCommand: CommandDefinition = {
  name: "run",
  description: "run a program in many ranks, print what it writes, and end with its exit status",
  args: ["PROGRAM", "[ARGS...]"],
  flags: [
    { name: "np", short: "n", value: "RANKS", description: "how many ranks", default: "1" },
    { name: "name", value: "NAME", description: "name of the job (default: the program's name and a random end)" },
    namespaceFlag,
    { name: "image", value: "IMAGE", description: "image with the program and its MPI, in a cluster", default: "local" },
    {
      name: "mpi",
      value: "MPI",
      description: "OpenMPI, MPICH, or Auto: the one that the program is linked with",
      default: "Auto",
    },
    { name: "ttl", value: "SECONDS", description: "how long after its end the job is kept; 0: for ever", default: "600" },
    { name: "workdir", value: "DIR", description: "where the program runs (default: this folder; with --image, the image's)" },
    { name: "server", value: "HOST", description: "NFS server whose --dir the workers have at /data" },
    { name: "dir", value: "PATH", description: "path on --server" },
    { name: "start-deadline", value: "SECONDS", description: "fail where not all workers have joined by then" },
    { name: "deadline", value: "SECONDS", description: "fail where it takes longer than this" },
    { name: "detach", description: "do not wait for the end" },
  ],
  run: async (context) => {
    try {
      return await run(context);
    } catch (error) {
      if (!(error instanceof CommandFlagError)) throw error;
      context.stderr.write(`${error.message}\n`);
      return 2;
    }
  },
};

async function run(context: CommandContext): Promise<number> {
  const { stdout, stderr, signal, flags } = context;
  const namespace = text(flags, "namespace") ?? "default";
  const { name, spec } = jobOfFlags(context, process.cwd(), randomBytes(3).toString("hex"));
  const client = await context.client();
  try {
    const made = await client.create(RhinoJob, { metadata: { name, namespace }, spec }, { signal });
    if (flags.detach === true) {
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
      const { job } = await followLogs(client, { job: made, workers: false, signal, out: stdout, onChange });
      if (job !== undefined) return job.status?.jobStatus === "Completed" ? 0 : job.status?.exitCode || 1;
      stderr.write(`${name} was deleted before its end\n`);
      return 1;
    } catch (error) {
      if (!signal.aborted) throw error;
      // As an mpiexec that is interrupted takes its ranks with it.
      await client.delete(RhinoJob, { namespace, name }, { propagationPolicy: "Background" });
      stderr.write(`${name}: interrupted and deleted\n`);
      return interruptedExitCode;
    }
  } finally {
    await client.close();
  }
}

/**
 * The job that the command's flags describe. `ending` makes its name differ from others of the program.
 *
 * **Errors**: a {@link CommandFlagError} that names the flag.
 */
export function jobOfFlags(
  { args, flags }: Pick<CommandContext, "args" | "flags">,
  folder: string,
  ending: string,
): { readonly name: string; readonly spec: RhinoJobSpec } {
  const [appExec, ...appArgs] = args;
  if (appExec === undefined) throw new CommandFlagError("the program is missing: keelson mpi run --np 2 -- ./pi");
  const image = text(flags, "image") ?? "local";
  const mpiImplementation = text(flags, "mpi") ?? "Auto";
  if (mpiImplementation !== "Auto" && mpiImplementation !== "OpenMPI" && mpiImplementation !== "MPICH")
    throw new CommandFlagError(`--mpi: ${JSON.stringify(mpiImplementation)} is none of Auto, OpenMPI, MPICH`);
  const dataServer = text(flags, "server");
  const dataPath = text(flags, "dir");
  if ((dataServer === undefined) !== (dataPath === undefined)) throw new CommandFlagError("--server and --dir go together");
  const workdir = text(flags, "workdir");
  const workingDir = image === "local" ? resolve(folder, workdir ?? ".") : workdir;
  const startDeadlineSeconds = count(flags, "start-deadline", 1);
  const activeDeadlineSeconds = count(flags, "deadline", 1);
  return {
    name: text(flags, "name") ?? `${nameOf(appExec)}-${ending}`,
    spec: {
      image,
      parallelism: count(flags, "np", 1) ?? 1,
      ttl: count(flags, "ttl", 0) ?? 600,
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

/** A program's name as far as objects can have it. */
function nameOf(program: string): string {
  const name = basename(program)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");
  return name.slice(0, 30).replace(/-+$/, "") || "mpi";
}
