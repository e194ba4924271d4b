import { failed } from "./job-end.ts";
import type { RhinoJobDecision, RhinoJobObservation } from "./observation.ts";
import { exitCodeOf, terminationMessage } from "./pod-trouble.ts";

/** The failure of a launcher, which names the rank that failed first if it can. */
export function launcherFailed(observation: RhinoJobObservation, jobReason: string, jobMessage: string): RhinoJobDecision {
  const codes = observation.launcherPods.map(exitCodeOf).filter((code) => code !== undefined);
  const detail = observation.launcherPods.map(terminationMessage).find((text) => text !== undefined);
  const exitCode = codes.at(-1);
  // BackoffLimitExceeded only means that the Pod failed. Any other reason (a deadline) is the cause.
  const reason = jobReason === "BackoffLimitExceeded" || jobReason === "" ? "ProgramFailed" : jobReason;
  // The launcher names the failed rank with its exit code.
  if (reason === "ProgramFailed" && detail?.startsWith("rank ")) return failed(observation, reason, detail, exitCode);
  const summary = exitCode === undefined || reason !== "ProgramFailed" ? jobMessage : `mpiexec exited with ${exitCode}`;
  return failed(observation, reason, detail === undefined ? summary : `${summary}: ${detail}`, exitCode);
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
