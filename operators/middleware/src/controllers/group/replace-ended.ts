import { formatTime, parseTime } from "@keelson/api-machinery/time";
import type { GroupStatus } from "../../api/group.ts";
import type { Next } from "./next.ts";
import { isOutdated, type PodView } from "./pod-view.ts";
import { restart } from "./restart.ts";

const [firstBackoffMs, maxBackoffMs] = [10_000, 5 * 60_000];
/** A Pod that ends later than this after its start, or its replacement, starts the backoff again. */
const resetMs = 10 * 60_000;

/** Whether all containers of a Pod have ended permanently, for example because the kubelet evicted or rejected it. */
export function hasEnded({ pod }: PodView): boolean {
  return pod?.status?.phase === "Failed" || pod?.status?.phase === "Succeeded";
}

/**
 * Replaces the first Pod whose replacement is due, among those that have ended; if none is, waits for the earliest. Undefined if none has ended.
 * A Pod in backoff does not delay the others, and those that terminate are not replaced.
 */
export function replaceFirstEnded(views: readonly PodView[], status: GroupStatus, now: number): Next | undefined {
  const ended = views.filter((view) => hasEnded(view) && view.pod?.metadata.deletionTimestamp === undefined);
  const replacements = ended.map((view) => replaceEnded(view, status, now));
  const [first] = replacements.sort((a, b) => dueMsOf(a) - dueMsOf(b));
  return first;
}

/** When a replacement is due. */
const dueMsOf = (next: Next): number => (next.kind === "wait" ? (next.dueMs ?? 0) : 0);

/**
 * Replaces a Pod that has ended: the first time immediately, then with exponential backoff from 10 s to 5 min, as the kubelet restarts
 * containers. `status.replacements` counts. A Pod of an earlier revision is replaced immediately.
 */
function replaceEnded(view: PodView, status: GroupStatus, now: number): Next {
  const { name, pod } = view;
  const last = status.replacements?.find((each) => each.pod === name);
  const replacedMs = parseTime(last?.replacedAt ?? "") ?? 0;
  const failures = last === undefined || now - replacedMs >= resetMs || isOutdated(view) ? 0 : last.failures;
  const dueMs = failures === 0 ? now : replacedMs + Math.min(firstBackoffMs * 2 ** (failures - 1), maxBackoffMs);
  const { reason, message } = pod?.status ?? {};
  const cause = [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
  if (dueMs > now) {
    const times = failures === 1 ? "again" : `${failures + 1} times`;
    const text = `${name} has ended ${times}; replacing it at ${formatTime(dueMs)}${cause === "" ? "" : ` (${cause})`}`;
    return { kind: "wait", message: text, dueMs };
  }
  const next = restart(view, `replacing ${name}, which has terminated`);
  if (next.kind !== "record") return next;
  return {
    ...next,
    change(changed) {
      next.change(changed);
      const entry = { pod: name, failures: failures + 1, replacedAt: formatTime(now) };
      const isRecent = ({ replacedAt }: { replacedAt: string }): boolean => now - (parseTime(replacedAt) ?? 0) < resetMs;
      const others = (changed.replacements ?? []).filter((each) => each.pod !== name && isRecent(each));
      changed.replacements = [...others, entry].slice(-maxEntries);
    },
  };
}

/** Number of Pods whose replacements are recorded. */
const maxEntries = 100;
