import { jsonEquals } from "@keelson/api-machinery";
import type { WarmStatus } from "@keelson/execution";
import type { AgentStatus } from "../protocol/protocol.ts";

/** Whether the warm slots of an agent have become complete or incomplete, or those that it wants have changed. */
function hasWarmChange(before: AgentStatus | undefined, { warm }: AgentStatus): boolean {
  const stateOf = (status: WarmStatus | undefined): string => {
    if (status === undefined) return "";
    const { shells, images, problem } = status;
    const isComplete = shells.ready >= shells.desired && images.ready >= images.desired;
    return JSON.stringify([shells.desired, images.desired, isComplete, problem]);
  };
  return stateOf(before?.warm) !== stateOf(warm);
}

/** Whether an agent no longer has a sandbox. Its objects may wait for that. */
function hasRemoval(before: AgentStatus | undefined, status: AgentStatus): boolean {
  const present = new Set(status.sandboxStatuses.map(({ sandboxId }) => sandboxId));
  return before?.sandboxStatuses.some(({ sandboxId }) => !present.has(sandboxId)) === true;
}

/** Whether a pool or its sandboxes may decide otherwise after a report: the number of sandboxes, the volumes or the warm slots have changed. */
export const hasLoadChange = (before: AgentStatus | undefined, status: AgentStatus): boolean =>
  status.allocated !== before?.allocated ||
  !jsonEquals(status.volumes, before?.volumes) ||
  !jsonEquals(status.volumeSizes, before?.volumeSizes) ||
  hasRemoval(before, status) ||
  hasWarmChange(before, status);

/** The warm slots of several agents together. */
export function sumWarm(statuses: readonly WarmStatus[]): WarmStatus {
  const sum = (value: (status: WarmStatus) => number): number => statuses.reduce((total, status) => total + value(status), 0);
  const slots = (kind: "shells" | "images"): WarmStatus["shells"] => ({
    desired: sum((status) => status[kind].desired),
    ready: sum((status) => status[kind].ready),
  });
  const problem = statuses.find((status) => status.problem !== undefined)?.problem;
  return {
    shells: slots("shells"),
    images: slots("images"),
    starts: {
      cold: sum(({ starts }) => starts.cold),
      shell: sum(({ starts }) => starts.shell),
      image: sum(({ starts }) => starts.image),
    },
    refills: { count: sum(({ refills }) => refills.count), totalMs: sum(({ refills }) => refills.totalMs) },
    ...(problem !== undefined && { problem }),
  };
}
