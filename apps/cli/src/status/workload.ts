import { type DeepReadonly, getController, type KubernetesObject } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import { objectHealth } from "./object-health.ts";

/** What `keelson status` shows of an object in one line. */
export interface WorkloadStatus {
  readonly kind: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespace?: string;
  readonly name: string;
  /** Phase or result, as the kind names it; empty if the object has no status yet. */
  readonly state: string;
  /** How long it has run, or ran until it ends. */
  readonly seconds: number;
  /** What it waits for, or why it needs attention; empty if neither is known. */
  readonly detail: string;
  readonly needsAttention: boolean;
}

interface WorkloadFields {
  readonly startTime?: unknown;
  readonly completionTime?: unknown;
  readonly finishTime?: unknown;
  readonly finishedAt?: unknown;
  readonly message?: unknown;
  readonly progress?: unknown;
  readonly conditions?: readonly { readonly type?: string; readonly status?: string; readonly message?: string }[];
}

/** States in which an object waits for nothing. */
const settledStates = new Set([
  "available",
  "bound",
  "completed",
  "healthy",
  "online",
  "ready",
  "running",
  "stopped",
  "succeeded",
]);

/** Reads the line of an object. Detail texts are cut at the first line break. */
export function workloadStatus(object: DeepReadonly<KubernetesObject>, now: number): WorkloadStatus {
  const { kind, metadata } = object;
  const status = ((object as { readonly status?: unknown }).status ?? {}) as WorkloadFields;
  const { state, problem } = objectHealth(object);
  const start = timeOf(status.startTime) ?? timeOf(metadata.creationTimestamp) ?? now;
  const end = timeOf(status.completionTime) ?? timeOf(status.finishTime) ?? timeOf(status.finishedAt) ?? now;
  const detail = problem ?? (settledStates.has(state.toLowerCase()) ? "" : reasonToWait(status));
  const { namespace, name = "" } = metadata;
  return {
    kind,
    ...(namespace === undefined ? {} : { namespace }),
    name,
    state: metadata.deletionTimestamp === undefined ? state : "Terminating",
    seconds: Math.max(Math.floor((Math.max(end, start) - start) / 1_000), 0),
    detail: detail.split("\n", 1)[0] ?? "",
    needsAttention: problem !== undefined,
  };
}

/** Whether an object was created by a user, and not by the controller of another object. */
export const isWorkload = (object: DeepReadonly<KubernetesObject>): boolean => getController(object) === undefined;

/** Sorts lines: what needs attention first, then what waits, then the rest by age. */
export const byUrgency = (a: WorkloadStatus, b: WorkloadStatus): number =>
  Number(b.needsAttention) - Number(a.needsAttention) ||
  Number(b.detail !== "") - Number(a.detail !== "") ||
  a.seconds - b.seconds;

function reasonToWait({ message, progress, conditions = [] }: WorkloadFields): string {
  const waiting = conditions.find(({ status, message: text = "" }) => status === "False" && text !== "");
  const progressing = conditions.find(({ type, status }) => type === "Progressing" && status === "True");
  const texts = [message, waiting?.message, progressing?.message];
  const text = texts.find((each): each is string => typeof each === "string" && each !== "") ?? "";
  if (text !== "" || typeof progress !== "string" || progress === "") return text;
  return `step ${progress}`;
}

const timeOf = (value: unknown): number | undefined => (typeof value === "string" ? parseTime(value) : undefined);
