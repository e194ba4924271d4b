import { type DeepReadonly, isJsonObject } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { formatTime, parseDuration, parseTime } from "@keelson/api-machinery/time";
import type { TransferStatus } from "../../api/backup-parts.ts";
import type { TransferResult } from "../../backup/transfer.ts";

/** The part of a status that records transfers. */
export interface TransferProgress {
  attempt?: number;
  transfers?: number;
  retryAt?: string;
  transfer?: TransferStatus;
}

/** Inputs of {@link runStep}. */
export interface StepContext {
  /** Name of the Backup or Restore. */
  readonly name: string;
  readonly timeout: string;
  readonly maxRetries: number;
  /** The Pod of the recorded transfer, if it exists. */
  readonly pod: DeepReadonly<PodObject> | undefined;
  readonly now: number;
  /** Chooses what a new attempt uses, or says why none can start. */
  readonly begin: () => Partial<Pick<TransferStatus, "agent" | "path">> | { readonly problem: string };
}

/** The state of a step. */
export type StepOutcome =
  /** An attempt was recorded, or its Pod was seen: the status must be written. */
  | { readonly kind: "recorded"; readonly message: string }
  /** The Pod must be created. */
  | { readonly kind: "create"; readonly transfer: TransferStatus; readonly message: string }
  /** The Pod has exceeded its timeout and must be deleted. */
  | { readonly kind: "delete"; readonly message: string }
  | { readonly kind: "waiting"; readonly message: string; readonly dueMs?: number }
  | { readonly kind: "done"; readonly transfer: TransferStatus; readonly result: TransferResult & { readonly ok: true } }
  /** `isDataKept`: the last attempt is known to have changed no data. */
  | { readonly kind: "failed"; readonly message: string; readonly isDataKept: boolean };

const firstBackoffMs = 5_000;
const maxBackoffMs = 300_000;
/** Agents report no change of their lag, so a source that is not available is tried again. */
const problemRetryMs = 5_000;

/**
 * Runs a step by Pods, one attempt after the other. Every attempt is recorded before its Pod is created, and another one starts only when
 * the Pod of the last has ended, so two never write at the same time. Mutates `status`.
 */
export function runStep(step: TransferStatus["step"], status: TransferProgress, context: StepContext): StepOutcome {
  const { pod, now } = context;
  const { transfer } = status;
  if (transfer === undefined) return begin(step, status, context);
  const deadlineMs = parseTime(transfer.deadlineAt) ?? now;
  if (pod === undefined || (transfer.uid !== undefined && pod.metadata.uid !== transfer.uid)) {
    if (transfer.uid === undefined && now >= deadlineMs)
      return fail(status, context, {
        error: `the Pod ${transfer.pod} could not be created within its timeout`,
        isFinal: false,
        isDataKept: true,
      });
    if (transfer.uid === undefined) return { kind: "create", transfer, message: `creating the Pod ${transfer.pod}` };
    return fail(status, context, { error: `the Pod ${transfer.pod} was deleted or exceeded its timeout`, isFinal: false });
  }
  if (transfer.uid === undefined) {
    status.transfer = { ...transfer, uid: pod.metadata.uid ?? "" };
    return { kind: "recorded", message: `the Pod ${transfer.pod} is starting` };
  }
  const phase = pod.status?.phase;
  if (phase === "Succeeded" || phase === "Failed") return finish(status, transfer, pod, context);
  if (pod.metadata.deletionTimestamp !== undefined)
    return { kind: "waiting", message: `waiting for the Pod ${transfer.pod} to terminate` };
  if (now >= deadlineMs) return { kind: "delete", message: `the Pod ${transfer.pod} exceeded its timeout` };
  return { kind: "waiting", message: describe(pod, transfer), dueMs: deadlineMs };
}

function begin(step: TransferStatus["step"], status: TransferProgress, context: StepContext): StepOutcome {
  const { name, timeout, now } = context;
  const retryMs = status.retryAt === undefined ? now : (parseTime(status.retryAt) ?? now);
  if (retryMs > now) return { kind: "waiting", message: "", dueMs: retryMs };
  const choice = context.begin();
  if ("problem" in choice) return { kind: "waiting", message: choice.problem, dueMs: now + problemRetryMs };
  delete status.retryAt;
  status.attempt = (status.attempt ?? 0) + 1;
  status.transfers = (status.transfers ?? 0) + 1;
  status.transfer = {
    pod: `${name}-${step}-${status.transfers}`,
    step,
    ...choice,
    startedAt: formatTime(now),
    deadlineAt: formatTime(now + parseDuration(timeout)),
  };
  return { kind: "recorded", message: `the Pod ${status.transfer.pod} is starting` };
}

function finish(
  status: TransferProgress,
  transfer: TransferStatus,
  pod: DeepReadonly<PodObject>,
  context: StepContext,
): StepOutcome {
  const result = resultOf(pod);
  if (!result.ok) return fail(status, context, result);
  delete status.transfer;
  delete status.attempt;
  return { kind: "done", transfer, result };
}

function fail(
  status: TransferProgress,
  { maxRetries, now }: StepContext,
  { error, isFinal, isDataKept = false }: { readonly error: string; readonly isFinal: boolean; readonly isDataKept?: boolean },
): StepOutcome {
  const attempt = status.attempt ?? 1;
  delete status.transfer;
  if (isFinal || attempt > maxRetries) {
    delete status.attempt;
    return { kind: "failed", message: error, isDataKept };
  }
  const dueMs = now + Math.min(firstBackoffMs * 2 ** (attempt - 1), maxBackoffMs);
  status.retryAt = formatTime(dueMs);
  return { kind: "waiting", message: `attempt ${attempt} failed: ${error}; retrying at ${status.retryAt}`, dueMs };
}

/** The result that a Pod left as its termination message. Without one the end of its log is the error. */
function resultOf({ metadata, status }: DeepReadonly<PodObject>): TransferResult {
  const terminated = status?.containerStatuses?.[0]?.state?.terminated;
  const message = terminated?.message ?? "";
  const failed = (error: string): TransferResult => ({ ok: false, error, isFinal: false });
  let value: unknown;
  try {
    value = JSON.parse(message);
  } catch {
    const reason = message.trim() || status?.message || status?.reason || `exit code ${terminated?.exitCode ?? "unknown"}`;
    return failed(`the Pod ${metadata.name} ended without a result: ${reason.slice(-500)}`);
  }
  if (isJsonObject(value) && value.ok === true && status?.phase === "Succeeded") return value as unknown as TransferResult;
  if (isJsonObject(value) && typeof value.error === "string")
    return { ok: false, error: value.error, isFinal: value.isFinal === true, isDataKept: value.isDataKept === true };
  return failed(`the Pod ${metadata.name} left an invalid result`);
}

function describe({ status }: DeepReadonly<PodObject>, { pod, step }: TransferStatus): string {
  const waiting = status?.containerStatuses?.[0]?.state?.waiting;
  const problem = waiting?.message ?? status?.conditions?.find(({ type }) => type === "PodScheduled")?.message;
  if (status?.phase !== "Running") return `the Pod ${pod} is starting${problem ? `: ${problem}` : ""}`;
  const verbs = {
    backup: "storing the data",
    check: "verifying the data",
    load: "loading the data",
    delete: "deleting the data",
  };
  return verbs[step];
}
