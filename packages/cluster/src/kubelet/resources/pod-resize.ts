import { restarts } from "../pod/machine/container-restart.ts";
import { kill } from "../pod/machine/pod-events.ts";
import { change, type ContainerRecord, planOf, type PodEffect, type PodState } from "../pod/machine/pod-state.ts";
import { changedResources, isResizable, requiresRestart, resizeNote } from "./pod-resources.ts";
import { graceMs } from "../pod/pod-view.ts";

/** Gives running containers the resources that the node has admitted: in place, or by a restart if their resize policy requires it. */
export function resizeContainers(before: PodState, now: number, effects: PodEffect[]): PodState {
  if (before.stop !== undefined || before.end !== undefined) return before;
  let state = before;
  let isOver = true;
  for (const record of before.containers) {
    if (record.isRestarting === true && restarts(state.pod, record)) isOver = false;
    const { kind } = record.current;
    if ((kind !== "running" && kind !== "starting") || !isResizable(record.role)) continue;
    const { container } = planOf(state.pod, record.name);
    const changed = changedResources(record.actuated, container.resources);
    if (changed.length === 0) continue;
    isOver = false;
    if (kind === "starting" || record.stopGraceMs !== undefined || record.isResizing === true || (record.resizeAt ?? 0) > now)
      continue;
    state = change(state, record.name, (each): ContainerRecord => {
      if (requiresRestart(container, changed)) {
        return { ...kill(each, graceMs(state.pod), effects, "resize requires restart"), isRestarting: true };
      }
      effects.push({ kind: "resize", name: each.name, attempt: each.attempt, resources: container.resources ?? {} });
      const { resizeAt: _, ...rest } = each;
      return { ...rest, isResizing: true };
    });
  }
  return isOver
    ? complete(state, effects)
    : { ...state, resize: state.resize ?? { generation: state.pod.metadata.generation ?? 0 } };
}

function complete(state: PodState, effects: PodEffect[]): PodState {
  const { resize, ...rest } = state;
  if (resize === undefined) return state;
  const note = resizeNote("Pod resize completed", state.pod, resize.generation);
  effects.push({ kind: "event", type: "Normal", reason: "ResizeCompleted", note });
  return rest;
}
