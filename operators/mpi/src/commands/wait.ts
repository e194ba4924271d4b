import type { CommandDefinition } from "@keelson/operator";
import { durationFlag } from "@keelson/operator/flags";
import { deadlineExitCode } from "../launch/exit-codes.ts";
import { findJob, jobNotFound } from "./jobs/find-job.ts";
import { namespaceFlag } from "./flags.ts";
import { exitCodeOfJob, watchUntilEnd } from "./jobs/watch-job.ts";

const timeoutFlag = durationFlag({
  name: "timeout",
  description: "exit with 124 after this time (default: wait without limit)",
  bareUnit: "s",
});

/** `keelson mpi wait NAME`. */
export const waitCommand: CommandDefinition = {
  name: "wait",
  description: "wait for a job to finish and exit with its status",
  args: ["NAME"],
  flags: [namespaceFlag, timeoutFlag],
  async run({ args, flags, stdout, stderr, clock, signal, client: connect }) {
    const key = { namespace: namespaceFlag.read(flags), name: args[0] ?? "" };
    const timeoutMs = timeoutFlag.read(flags);
    const late = new AbortController();
    const timer = timeoutMs === undefined ? undefined : clock.setTimer(timeoutMs, () => late.abort());
    const client = await connect();
    try {
      const stop = AbortSignal.any([signal, late.signal]);
      const found = await findJob(client, key, stop);
      if (found === undefined) {
        stderr.write(jobNotFound(key));
        return 1;
      }
      const job = await watchUntilEnd(client, found, { signal: stop, onChange: () => {} });
      if (job === undefined) {
        stderr.write(`${key.name} was deleted before it ended\n`);
        return 1;
      }
      stdout.write(`${key.name}: ${job.status?.jobStatus}: ${job.status?.message}\n`);
      return exitCodeOfJob(job);
    } catch (error) {
      if (!late.signal.aborted || signal.aborted) throw error;
      stderr.write(`${key.name} has not ended after ${(timeoutMs ?? 0) / 1000} s\n`);
      return deadlineExitCode;
    } finally {
      timer?.cancel();
      await client.close();
    }
  },
};
