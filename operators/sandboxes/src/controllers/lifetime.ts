import type { DeepReadonly } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { startDeadlineAnnotation } from "../api/names.ts";
import type { Sandbox } from "../api/sandbox.ts";

/*
 * When a Sandbox ends. Time passes only while it is not paused: the status has how long it was paused, and `expiryBase` how long it had been
 * paused when the spec got its present `expireTime`, so that a renewal is not extended by earlier pauses.
 */

type SandboxLike = Pick<DeepReadonly<Sandbox>, "spec" | "status">;

/** The expiry in the spec (ms since the epoch), or never. */
export function expiryOf(spec: DeepReadonly<Sandbox["spec"]>): number | undefined {
  if (spec.expireTime !== undefined) return Date.parse(spec.expireTime);
  return spec.expireTimeSeconds === undefined || spec.expireTimeSeconds === 0 ? undefined : spec.expireTimeSeconds * 1000;
}

/** When a Sandbox expires by `expireTime` and `maxAgeSeconds` (ms since the epoch), with past pauses added; undefined: never. */
export function lifetimeEnd({ spec, status = {} }: SandboxLike): number | undefined {
  const requested = expiryOf(spec);
  const { pausedSeconds = 0, expiryBase, firstStartTime } = status;
  const isSameExpiry = expiryBase !== undefined && Date.parse(expiryBase.expireTime) === requested;
  const shiftSeconds = isSameExpiry ? pausedSeconds - expiryBase.pausedSeconds : 0;
  const ends = [
    ...(requested === undefined ? [] : [requested + shiftSeconds * 1000]),
    ...(spec.maxAgeSeconds === undefined || firstStartTime === undefined
      ? []
      : [Date.parse(firstStartTime) + (spec.maxAgeSeconds + pausedSeconds) * 1000]),
  ];
  return ends.length === 0 ? undefined : Math.min(...ends);
}

/** When a Sandbox expires because nothing uses it (ms since the epoch); undefined while it is used. */
export function idleEnd({ spec }: SandboxLike, idleSinceMs: number | undefined): number | undefined {
  if (spec.idleTimeoutSeconds === undefined || idleSinceMs === undefined) return undefined;
  return idleSinceMs + spec.idleTimeoutSeconds * 1000;
}

/** The fields of the status that describe the lifetime: the effective expiry and its base. */
export function lifetimeStatus(sandbox: SandboxLike): Pick<NonNullable<Sandbox["status"]>, "expireTime" | "expiryBase"> {
  const { spec, status = {} } = sandbox;
  const requested = expiryOf(spec);
  const end = lifetimeEnd(sandbox);
  const { expiryBase } = status;
  const isSameExpiry = requested !== undefined && expiryBase !== undefined && Date.parse(expiryBase.expireTime) === requested;
  const base = isSameExpiry ? expiryBase.pausedSeconds : (status.pausedSeconds ?? 0);
  return {
    ...(end !== undefined && { expireTime: formatTime(end) }),
    ...(requested !== undefined && { expiryBase: { expireTime: new Date(requested).toISOString(), pausedSeconds: base } }),
  };
}

/** When the object of a finished Sandbox is deleted (ms since the epoch); undefined: never. */
export function deletionTime({ spec, status = {} }: SandboxLike): number | undefined {
  const { ttlSecondsAfterFinished: ttl } = spec;
  const finished = status.finishTime ?? status.expiredTime;
  return ttl === undefined || finished === undefined ? undefined : Date.parse(finished) + ttl * 1000;
}

/** When a Sandbox must have started (ms since the epoch); undefined once it has, or if it may start at any time. */
export function startDeadlineOf({ metadata, status }: DeepReadonly<Sandbox>): number | undefined {
  const text = metadata.annotations?.[startDeadlineAnnotation];
  if (text === undefined || status?.firstStartTime !== undefined) return undefined;
  const deadline = Date.parse(text);
  return Number.isFinite(deadline) ? deadline : undefined;
}
