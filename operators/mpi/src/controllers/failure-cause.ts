import { failed } from "./job-end.ts";
import type { RhinoJobDecision, RhinoJobObservation } from "./observation.ts";
import { exitCodeOf, terminationMessage } from "./pod-trouble.ts";

/** Messages of a launcher that name the cause. mpiexec was stopped because of it, so its exit status adds nothing. */
const namesCause =
  /^(?:rank |mpiexec |the MPI daemon |(?:WorkerLost|WorkerFailed|RankFailed|BadLaunchLine|StartDeadlineExceeded|Terminated): )/;
const killedExitCode = 137;

/** The failure of a launcher, which names the rank that failed first if it can. */
export function launcherFailed(observation: RhinoJobObservation, jobReason: string, jobMessage: string): RhinoJobDecision {
  const codes = observation.launcherPods.map(exitCodeOf).filter((code) => code !== undefined);
  const detail = observation.launcherPods.map(terminationMessage).find((text) => text !== undefined);
  const exitCode = codes.at(-1);
  // BackoffLimitExceeded only means that the Pod failed. Any other reason (a deadline) is the cause.
  const reason = jobReason === "BackoffLimitExceeded" || jobReason === "" ? "ProgramFailed" : jobReason;
  if (reason === "ProgramFailed" && detail !== undefined && namesCause.test(detail))
    return failed(observation, reason, detail, exitCode);
  const summary = reason === "ProgramFailed" ? summaryOf(exitCode, jobMessage) : jobMessage;
  return failed(observation, reason, detail === undefined ? summary : `${summary}: ${detail}`, exitCode);
}

/** What is known of a launcher that did not name a cause. One that survives mpiexec reports how that ended. */
function summaryOf(exitCode: number | undefined, jobMessage: string): string {
  if (exitCode === undefined) return `the launcher's Pod was deleted or not created: ${jobMessage}`;
  return exitCode === killedExitCode ? `the launcher was killed (exit code ${exitCode})` : `mpiexec exited with ${exitCode}`;
}

/** The failure of a worker, from its Pod. */
export function workersFailed(observation: RhinoJobObservation): RhinoJobDecision {
  const pod = observation.workerPods.find((each) => each.status?.phase === "Failed");
  const detail = pod === undefined ? undefined : terminationMessage(pod);
  const code = pod === undefined ? undefined : exitCodeOf(pod);
  const { failedIndexes } = observation.workers?.status ?? {};
  const summary =
    pod === undefined
      ? `${failedIndexes ? `worker ${failedIndexes}` : "a worker"} was deleted`
      : `worker ${pod.metadata.name} exited with ${code ?? "an unknown status"}`;
  return failed(observation, "WorkerFailed", detail === undefined ? summary : `${summary}: ${detail}`);
}
