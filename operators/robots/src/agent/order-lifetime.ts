import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { parseDuration } from "@keelson/api-machinery/time";
import type { RestartPolicy } from "../api/policies.ts";
import { defaultLostAfterMs, minLostAfterMs } from "../work/disconnect-policy.ts";
import { completeRestartPolicy } from "../work/restart-policy.ts";
import { child, InvalidField, own, text } from "./tasks/task-fields.ts";

/** The restarts of a program by the robot. `count` is the number of restarts before this attempt. */
export interface LocalRestart {
  readonly policy: RestartPolicy;
  readonly count: number;
}

/* How long the program of a task runs, and when it starts again. */

/** A duration of at least 0 in milliseconds; undefined if there is none. **Errors**: {@link InvalidField}. */
export function durationMs(spec: JsonObject, field: string): number | undefined {
  const value = text(spec, field, "spec");
  if (value === undefined) return undefined;
  let ms: number;
  try {
    ms = parseDuration(value);
  } catch {
    throw new InvalidField(`spec.${field}: ${JSON.stringify(value)} must be a duration such as 90s or 1m30s`);
  }
  if (!(ms >= 0)) throw new InvalidField(`spec.${field}: ${JSON.stringify(value)} must not be negative`);
  return Math.ceil(ms);
}

/** A service is restarted by the robot, so that it needs no network for it. */
export function restartOf(task: JsonObject, spec: JsonObject): { readonly restart?: LocalRestart } {
  const type = own(spec, "type");
  const policy = own(spec, "restartPolicy");
  if ((type !== "service" && type !== "system") || !isJsonObject(policy)) return {};
  const { attempts, mode } = policy;
  if (attempts === 0) return {};
  const interval = text(policy, "interval", "spec.restartPolicy");
  const delay = text(policy, "delay", "spec.restartPolicy");
  const count = own(child(task, "status"), "restartCount");
  return {
    restart: {
      policy: completeRestartPolicy(
        {
          ...(typeof attempts === "number" ? { attempts } : {}),
          ...(interval === undefined ? {} : { interval }),
          ...(delay === undefined ? {} : { delay }),
          ...(mode === "delay" || mode === "fail" ? { mode } : {}),
        },
        type,
      ),
      count: typeof count === "number" ? count : 0,
    },
  };
}

/** Whether the server dispatched an attempt with a lease. */
export function isLeased(task: JsonObject, attempt: number): boolean {
  return own(child(child(task, "status"), "lease"), "attempt") === attempt;
}

/** The duration that the server has recorded. An earlier server records none. */
export function leaseMs(task: JsonObject, spec: JsonObject): number {
  const recorded = own(child(child(task, "status"), "lease"), "durationMs");
  if (typeof recorded === "number" && Number.isSafeInteger(recorded)) return Math.max(recorded, minLostAfterMs);
  return Math.max(durationMs(child(spec, "disconnect"), "lostAfter") ?? defaultLostAfterMs, minLostAfterMs);
}

/** The attempt that this one adopts, if it ran on this robot. */
export function adoptsOf(task: JsonObject, robotId: string): { readonly adopts?: number } {
  const { robot, attempt } = child(child(task, "status"), "adopted");
  return robot === robotId && typeof attempt === "number" ? { adopts: attempt } : {};
}
