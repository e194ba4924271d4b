import type { Stored } from "@keelson/api-machinery";
import { Deployment, type DeploymentObject, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { componentLabel, partOfLabel } from "../objects/install-object.ts";
import { InstallError } from "./install-error.ts";
import { type Observed, waitUntil } from "./wait-until.ts";

/** The state of a rollout. */
export interface RolloutState {
  readonly component: string;
  readonly ready: number;
  readonly desired: number;
  readonly isDone: boolean;
}

/** Options of {@link waitForRollouts}. */
export interface RolloutOptions {
  readonly client: Client;
  readonly namespace: string;
  /** Components to wait for, such as `robots`. */
  readonly components: ReadonlySet<string>;
  /** Called for each component whose state has changed. */
  readonly onState: (state: RolloutState) => void;
  readonly signal: AbortSignal;
  /** Ends the wait with an error. */
  readonly deadline: AbortSignal;
}

/** The state of a Deployment's rollout. Pure. */
export function rolloutState({ metadata, spec, status }: Stored<DeploymentObject>): RolloutState {
  const desired = spec.replicas ?? 1;
  const { observedGeneration = 0, updatedReplicas = 0, availableReplicas = 0, replicas = 0 } = status ?? {};
  const isObserved = observedGeneration >= (metadata.generation ?? 0);
  const ready = isObserved ? Math.min(updatedReplicas, availableReplicas) : 0;
  return {
    component: metadata.labels?.[componentLabel] ?? metadata.name,
    ready,
    desired,
    isDone: isObserved && ready >= desired && replicas <= desired,
  };
}

/**
 * Waits until the Deployments of an installation have rolled out.
 *
 * **Errors**: {@link InstallError} `NotReady` at the deadline, with what the Pods wait for; the reason of `signal`.
 */
export async function waitForRollouts(options: RolloutOptions): Promise<void> {
  const { client, namespace, components, onState, signal, deadline } = options;
  const reported = new Map<string, string>();
  const isDone = (objects: Observed<DeploymentObject>): boolean => {
    const states = [...objects.values()].map(rolloutState).filter(({ component }) => components.has(component));
    for (const state of states) {
      const text = `${state.ready}/${state.desired}/${state.isDone}`;
      if (reported.get(state.component) === text) continue;
      reported.set(state.component, text);
      onState(state);
    }
    return states.length >= components.size && states.every((state) => state.isDone);
  };
  const selection = { namespace, labelSelector: `${partOfLabel}=keelson` };
  try {
    await waitUntil(client, Deployment, selection, isDone, AbortSignal.any([signal, deadline]));
  } catch (error) {
    signal.throwIfAborted();
    if (!deadline.aborted) throw error;
    throw new InstallError("NotReady", await describeTrouble(client, namespace, components, signal), { cause: error });
  }
}

async function describeTrouble(
  client: Client,
  namespace: string,
  components: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<string> {
  const { items } = await client.list(Pod, { namespace, labelSelector: `${partOfLabel}=keelson`, signal });
  const troubles = items
    .filter(({ metadata }) => components.has(metadata.labels?.[componentLabel] ?? ""))
    .flatMap((pod) => {
      const trouble = podTrouble(pod);
      return trouble === undefined ? [] : [`  ${pod.metadata.name}: ${trouble}`];
    });
  const advice = `inspect them: kubectl describe pods -n ${namespace} -l ${partOfLabel}=keelson`;
  return troubles.length === 0
    ? `the operators did not become ready in time, and no Pod says why; ${advice}`
    : `the operators did not become ready in time:\n${troubles.join("\n")}\n${advice}`;
}

/** Why a Pod is not ready, or undefined if it is. Pure. */
export function podTrouble({ status }: Stored<PodObject>): string | undefined {
  for (const { state, ready, lastState } of status?.containerStatuses ?? []) {
    if (ready) continue;
    const { waiting } = state ?? {};
    const ended = state?.terminated ?? lastState?.terminated;
    const terminationMessage =
      ended === undefined ? "" : ` (exited with ${ended.exitCode}${ended.message ? `: ${ended.message.trim()}` : ""})`;
    if (waiting?.reason !== undefined)
      return `${waiting.reason}${waiting.message ? `: ${waiting.message}` : ""}${terminationMessage}`;
    return `running, but not ready${terminationMessage}`;
  }
  const unscheduled = status?.conditions?.find(({ type, status: is }) => type === "PodScheduled" && is === "False");
  if (unscheduled !== undefined) return `not scheduled: ${unscheduled.message ?? unscheduled.reason ?? "unknown reason"}`;
  return (status?.containerStatuses ?? []).length === 0 ? `${status?.phase ?? "Pending"}` : undefined;
}
