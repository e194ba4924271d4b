import { randomBytes } from "node:crypto";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { createHttpTransport, findConnection } from "@keelson/client";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { isUsageError } from "@keelson/operator/flags";
import { containerNames } from "../../api/names.ts";
import { RhinoJob } from "../../api/rhino-job.ts";
import type { JobView } from "../../controllers/job-view.ts";
import { launchLine, manifestOf } from "./dry-run.ts";
import { followLogs } from "../logs/follow-logs.ts";
import { jobOfFlags, runFlags } from "./job-flags.ts";
import { forwardsInput, sendPodInput } from "./pod-input.ts";
import { exitCodeOfJob } from "../jobs/watch-job.ts";

/** Exit status after Ctrl-C, as in a shell. */
const interruptedExitCode = 130;

/** `keelson mpi run -- PROGRAM ...`: creates a RhinoJob, streams its output and exits with its status. */
export const runCommand: CommandDefinition = {
  name: "run",
  description: "run a program in parallel ranks, stream its output and exit with its status",
  args: ["PROGRAM", "[ARGS...]"],
  flags: Object.values(runFlags),
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
  const namespace = runFlags.namespace.read(context.flags);
  const isDetached = runFlags.detach.read(context.flags);
  const hasInput = !isDetached && forwardsInput(runFlags.stdin.read(context.flags));
  const caller = { folder: process.cwd(), path: process.env.PATH, hasInput, suffix: randomBytes(3).toString("hex") };
  const { name, spec } = jobOfFlags(context, caller);
  if (runFlags.dryRun.read(context.flags)) {
    stdout.write(manifestOf(name, namespace, spec));
    if (spec.image === "local") stderr.write(`${launchLine(spec, caller.path ?? "", caller.folder)}\n`);
    return 0;
  }
  const client = await context.client();
  try {
    const created = await client.create(RhinoJob, { metadata: { name, namespace }, spec }, { signal });
    if (isDetached) {
      stdout.write(`${name}\n`);
      return 0;
    }
    let last = "";
    const onChange = (job: JobView): void => {
      const line = `${name}: ${job.status?.jobStatus ?? "Pending"}${job.status?.message ? `: ${job.status.message}` : ""}`;
      if (line !== last) stderr.write(`${line}\n`);
      last = line;
    };
    const finished = new AbortController();
    const onStarted = (pod: DeepReadonly<PodObject>): void => {
      if (hasInput) void forwardInput(context, pod, AbortSignal.any([signal, finished.signal]));
    };
    try {
      const { job } = await followLogs(client, { job: created, workers: false, signal, out: stdout, onChange, onStarted });
      if (job !== undefined) return exitCodeOfJob(job);
      stderr.write(`${name} was deleted before it ended\n`);
      return 1;
    } catch (error) {
      if (!signal.aborted) throw error;
      // An interrupted mpiexec stops its ranks too.
      await client.delete(RhinoJob, { namespace, name }, { propagationPolicy: "Background" });
      stderr.write(`${name}: interrupted and deleted\n`);
      return interruptedExitCode;
    } finally {
      finished.abort();
    }
  } finally {
    await client.close();
  }
}

/** Sends this process's standard input to the launcher, whose mpiexec passes it to rank 0. */
async function forwardInput(
  { flags, stderr }: CommandContext,
  { metadata: { namespace, name = "" } }: DeepReadonly<PodObject>,
  signal: AbortSignal,
): Promise<void> {
  try {
    const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
    const { transport: connection } = await findConnection({
      kubeconfig: text(flags.kubeconfig),
      context: text(flags.context),
    });
    const transport = createHttpTransport(connection);
    try {
      const pod = { namespace, name };
      await sendPodInput({ transport, pod, container: containerNames.launcher, input: process.stdin, signal });
    } finally {
      await transport.close();
    }
  } catch (error) {
    if (!signal.aborted)
      stderr.write(`could not forward standard input: ${error instanceof Error ? error.message : String(error)}\n`);
  }
}
