import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";

/** State of a user's object, as `keelson status` shows it. */
export interface ObjectHealth {
  /** Phase or result, as the kind names it; empty if the object has no status yet. */
  readonly state: string;
  /** Why it needs attention; absent if it does not. */
  readonly problem?: string;
}

/** The fields of a status that the kinds of the operators share. */
interface CommonStatus {
  readonly phase?: unknown;
  readonly state?: unknown;
  readonly jobStatus?: unknown;
  readonly reason?: unknown;
  readonly message?: unknown;
  readonly conditions?: readonly {
    readonly type?: string;
    readonly status?: string;
    readonly reason?: string;
    readonly message?: string;
  }[];
}

/** States that need attention, in lower case. */
const badStates = new Set(["aborted", "degraded", "error", "failed", "lost", "offline", "timeout", "unknown", "unhealthy"]);

/** Conditions that should be true once an object has settled. */
const wantedConditions = new Set(["Available", "Ready", "SandboxSchemaComplete"]);

/** States in which a condition may still be false. */
const settlingStates = new Set([
  "",
  "completed",
  "creating",
  "initializing",
  "pending",
  "provisioning",
  "stopped",
  "succeeded",
  "updating",
]);

/** Reads the state of an object from its status. */
export function objectHealth({ status }: DeepReadonly<KubernetesObject & { readonly status?: unknown }>): ObjectHealth {
  const { phase, state, jobStatus, reason, message, conditions = [] } = (status ?? {}) as CommonStatus;
  const shown = [phase, state, jobStatus].map(textOf).find((text) => text !== "") ?? readiness(conditions);
  const failing = conditions.find(({ type = "", status: value }) => wantedConditions.has(type) && value === "False");
  const why = [textOf(message), failing?.message ?? "", textOf(reason), failing?.reason ?? ""].find((text) => text !== "");
  if (badStates.has(shown.toLowerCase())) return { state: shown, problem: why ?? shown };
  if (failing !== undefined && !settlingStates.has(shown.toLowerCase()))
    return { state: shown, problem: why ?? `not ${failing.type ?? ""}` };
  return { state: shown };
}

/** The state of a kind that has conditions only. */
function readiness(conditions: NonNullable<CommonStatus["conditions"]>): string {
  const ready = conditions.find(({ type }) => type === "Ready");
  return ready === undefined ? "" : ready.status === "True" ? "Ready" : "NotReady";
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
