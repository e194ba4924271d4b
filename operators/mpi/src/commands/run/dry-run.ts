import type { DeepReadonly } from "@keelson/api-machinery";
import { RhinoJob, type RhinoJobSpec } from "../../api/rhino-job.ts";
import { layoutOf } from "../../children/hosts.ts";
import { findMpiexec } from "../../launch/mpiexec/find-mpiexec.ts";
import { mpiexecWords } from "../../launch/mpiexec/mpiexec-command.ts";
import type { LaunchOrder } from "../../launch/pod-environment.ts";

/** Values that are known only in the launcher's Pod. */
const unknown = { agent: "AGENT", podIP: "POD_IP" };

/** The manifest of a job, as JSON for `kubectl apply`. */
export function manifestOf(name: string, namespace: string, spec: DeepReadonly<RhinoJobSpec>): string {
  const { group, version, kind } = RhinoJob;
  return `${JSON.stringify({ apiVersion: `${group}/${version}`, kind, metadata: { name, namespace }, spec }, null, 2)}\n`;
}

/**
 * The line with which the launcher starts mpiexec, with the mpiexec that this machine's PATH has. `AGENT` is the program that takes the place
 * of ssh, and `POD_IP` the launcher's address.
 *
 * **Errors**: those of `findMpiexec`.
 */
export function launchLine(spec: DeepReadonly<RhinoJobSpec>, path: string, folder: string): string {
  const order: LaunchOrder = {
    implementation: spec.mpiImplementation,
    ...layoutOf({ spec }),
    ...(spec.labelOutput === true ? { labelsOutput: true } : {}),
    command: [spec.appExec, ...(spec.appArgs ?? [])],
  };
  const workingDirectory = spec.workingDir ?? folder;
  const { implementation, path: mpiexec } = findMpiexec(order, path, workingDirectory);
  return mpiexecWords({ implementation, mpiexec, order, workingDirectory, ...unknown })
    .map(quoted)
    .join(" ");
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
