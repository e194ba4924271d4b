import { basename, isAbsolute, resolve } from "node:path";
import { isQuantity } from "@keelson/api-machinery/quantity";
import type { CommandContext } from "@keelson/operator";
import { choiceFlag, countFlag, pairsFlag, switchFlag, textFlag, UsageError } from "@keelson/operator/flags";
import type { PodTemplateOverlay, RhinoJobSpec } from "../../api/rhino-job.ts";
import { runNamespaceFlag } from "../flags.ts";

/** Flags of `keelson mpi run`. */
export const runFlags = {
  np: countFlag({ name: "np", short: "n", value: "RANKS", description: "number of ranks", min: 1, default: "1" }),
  slots: countFlag({
    name: "slots",
    value: "RANKS",
    description: "maximum number of ranks per worker, which share its memory",
    min: 1,
    default: "1",
  }),
  name: textFlag({
    name: "name",
    value: "NAME",
    description: "name of the job (default: the program's name with a random suffix)",
  }),
  namespace: runNamespaceFlag,
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
    short: "t",
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
  memoryMode: choiceFlag({
    name: "mem-mode",
    value: "MODE",
    description: "whether --mem-size applies to the whole job or to each worker",
    choices: ["FixedTotalMemory", "FixedPerCoreMemory"],
    default: "FixedPerCoreMemory",
  }),
  memorySize: countFlag({
    name: "mem-size",
    value: "GIB",
    description: "memory that workers request from elastic container instances of Alibaba Cloud",
    min: 1,
    default: "2",
  }),
  startDeadline: countFlag({
    name: "start-deadline",
    value: "SECONDS",
    description: "fail if not all workers have joined after this time",
    min: 1,
  }),
  deadline: countFlag({ name: "deadline", value: "SECONDS", description: "fail if the job takes longer than this", min: 1 }),
  env: pairsFlag({
    name: "env",
    value: "NAME=VALUE",
    description: "environment variable of the program; without --image, the program also has the caller's PATH",
  }),
  stdin: choiceFlag({
    name: "stdin",
    value: "MODE",
    description: "forward standard input to rank 0: always, never, or auto: if it is a pipe or a file",
    choices: ["auto", "always", "never"],
    default: "auto",
  }),
  retries: countFlag({
    name: "retries",
    value: "COUNT",
    description: "number of further attempts with fresh workers after a failure",
    default: "0",
  }),
  label: switchFlag({
    name: "label",
    description: "prefix every line of output with its rank, without mixing lines of different ranks",
  }),
  checkpoint: textFlag({
    name: "checkpoint",
    value: "DIR",
    description: "directory that outlives attempts; the job's directory in it is in $KEELSON_JOB_CHECKPOINT_DIR",
  }),
  queue: textFlag({ name: "queue", value: "QUEUE", description: "queue that admits the job (default: default)" }),
  priorityClass: textFlag({ name: "priority-class", value: "CLASS", description: "PriorityClass of the job in its queue" }),
  requests: pairsFlag({
    name: "request",
    value: "RESOURCE=AMOUNT",
    description: "resource that each worker requests, such as cpu=2; the job waits until all its workers fit",
  }),
  dryRun: switchFlag({
    name: "dry-run",
    description: "print the job's manifest and, without --image, the line that starts mpiexec; create nothing",
  }),
  detach: switchFlag({ name: "detach", description: "print the name of the job and return without waiting" }),
};

/** What a job takes from the process that creates it. */
export interface Caller {
  /** Its working directory. */
  readonly folder: string;
  /** Its PATH, passed to the program unless an image is set. */
  readonly path: string | undefined;
  /** Whether its standard input is forwarded to rank 0. */
  readonly hasInput: boolean;
  /** Makes the job's name unique. */
  readonly suffix: string;
}

/**
 * The job that the flags of `keelson mpi run` describe.
 *
 * **Errors**: {@link UsageError}, which names the flag.
 */
export function jobOfFlags(
  { args, flags: values }: Pick<CommandContext, "args" | "flags">,
  { folder, path, hasInput, suffix }: Caller,
): { readonly name: string; readonly spec: RhinoJobSpec } {
  const [appExec, ...appArgs] = args;
  if (appExec === undefined) throw new UsageError("missing program; example: keelson mpi run --np 2 -- ./pi");
  const image = runFlags.image.read(values);
  const mpiImplementation = runFlags.mpi.read(values);
  const dataServer = runFlags.server.read(values);
  const dataPath = runFlags.dir.read(values);
  if ((dataServer === undefined) !== (dataPath === undefined)) throw new UsageError("--server and --dir must be set together");
  const backoffLimit = runFlags.retries.read(values);
  const slotsPerWorker = runFlags.slots.read(values);
  const workdir = runFlags.workdir.read(values);
  const workingDir = image === "local" ? resolve(folder, workdir ?? ".") : workdir;
  const startDeadlineSeconds = runFlags.startDeadline.read(values);
  const template = templateOf(runFlags.env.read(values), image === "local" ? path : undefined);
  const checkpoint = runFlags.checkpoint.read(values);
  if (checkpoint !== undefined && image !== "local" && !isAbsolute(checkpoint))
    throw new UsageError("--checkpoint must be an absolute path in the container with --image");
  const workerTemplate = withRequests(template, runFlags.requests.read(values));
  const runPolicy = runPolicyOf(backoffLimit, runFlags.queue.read(values), runFlags.priorityClass.read(values));
  const activeDeadlineSeconds = runFlags.deadline.read(values);
  return {
    name: runFlags.name.read(values) ?? `${nameOf(appExec)}-${suffix}`,
    spec: {
      image,
      parallelism: runFlags.np.read(values),
      ...(slotsPerWorker === 1 ? {} : { slotsPerWorker }),
      ttl: runFlags.ttl.read(values),
      appExec,
      ...(appArgs.length > 0 ? { appArgs } : {}),
      memoryAllocationMode: runFlags.memoryMode.read(values),
      memoryAllocationSize: runFlags.memorySize.read(values),
      mpiImplementation,
      ...(workingDir === undefined ? {} : { workingDir }),
      ...(dataServer === undefined || dataPath === undefined ? {} : { dataServer, dataPath }),
      ...(startDeadlineSeconds === undefined ? {} : { startDeadlineSeconds }),
      ...(runPolicy === undefined ? {} : { runPolicy }),
      ...(checkpoint === undefined ? {} : { checkpoint: { directory: resolve(folder, checkpoint) } }),
      ...(runFlags.label.read(values) ? { labelOutput: true } : {}),
      ...(hasInput ? { stdin: true } : {}),
      ...(template === undefined ? {} : { launcherTemplate: template }),
      ...(workerTemplate === undefined ? {} : { workerTemplate }),
      ...(activeDeadlineSeconds === undefined ? {} : { activeDeadlineSeconds }),
    },
  };
}

function runPolicyOf(
  backoffLimit: number,
  queue: string | undefined,
  priorityClass: string | undefined,
): RhinoJobSpec["runPolicy"] {
  const schedulingPolicy = {
    ...(queue === undefined ? {} : { queue }),
    ...(priorityClass === undefined ? {} : { priorityClass }),
  };
  const policy = {
    ...(backoffLimit === 0 ? {} : { backoffLimit }),
    ...(queue === undefined && priorityClass === undefined ? {} : { schedulingPolicy }),
  };
  return Object.keys(policy).length === 0 ? undefined : policy;
}

/** The template of the workers with the resources that each of them requests. */
function withRequests(
  template: PodTemplateOverlay | undefined,
  amounts: readonly (readonly [resource: string, amount: string])[],
): PodTemplateOverlay | undefined {
  if (amounts.length === 0) return template;
  const invalid = amounts.find(([, amount]) => !isQuantity(amount));
  if (invalid !== undefined) throw new UsageError(`--request ${invalid.join("=")}: must be a quantity, such as 500m, 2 or 4Gi`);
  const [container] = template?.spec?.containers ?? [];
  const requests = Object.fromEntries(amounts);
  // Devices have limits, which requests must equal.
  const limits = Object.fromEntries(amounts.filter(([resource]) => resource.includes("/")));
  const resources = { requests, ...(Object.keys(limits).length === 0 ? {} : { limits }) };
  return { spec: { containers: [{ ...container, resources }] } };
}

/** A program's name as a valid object name. */
function nameOf(program: string): string {
  const name = basename(program)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");
  return name.slice(0, 30).replace(/-+$/, "") || "mpi";
}

/**
 * The template of the launcher and the workers: the launcher looks for mpiexec on the PATH, and the workers for the program. Without a
 * PATH of the caller, that of the image applies.
 */
function templateOf(
  variables: readonly (readonly [name: string, value: string])[],
  path: string | undefined,
): PodTemplateOverlay | undefined {
  const all = new Map([...(path === undefined ? [] : [["PATH", path] as const]), ...variables]);
  // Kubernetes expands $(NAME) in values; $$ stands for one $.
  const env = [...all].map(([name, value]) => ({ name, value: value.replaceAll("$(", "$$$$(") }));
  return env.length === 0 ? undefined : { spec: { containers: [{ env }] } };
}
