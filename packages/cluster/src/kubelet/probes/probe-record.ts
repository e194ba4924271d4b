import type { ContainerView, ProbeView } from "../pod/pod-view.ts";

/** The kind of a probe. */
export type ProbeKind = "startup" | "liveness" | "readiness";

/** The state of one probe of a running container. */
export interface ProbeRecord {
  readonly nextAt: number;
  readonly isRunning: boolean;
  readonly startedAt: number;
  /** Consecutive results. */
  readonly successes: number;
  readonly failures: number;
}

/** The probes of a container that starts now. */
export function firstProbes(container: ContainerView, startedAt: number): Partial<Record<ProbeKind, ProbeRecord>> {
  const first = (probe: ProbeView): ProbeRecord => ({
    nextAt: startedAt + (probe.initialDelaySeconds ?? 0) * 1000,
    isRunning: false,
    startedAt: 0,
    successes: 0,
    failures: 0,
  });
  return {
    ...(container.startupProbe === undefined ? {} : { startup: first(container.startupProbe) }),
    ...(container.livenessProbe === undefined ? {} : { liveness: first(container.livenessProbe) }),
    ...(container.readinessProbe === undefined ? {} : { readiness: first(container.readinessProbe) }),
  };
}

/** Counts one result. Returns a verdict whenever the threshold is reached. */
export function recordProbe(
  before: ProbeRecord,
  spec: ProbeView,
  isSuccess: boolean,
  now: number,
): { readonly probe: ProbeRecord; readonly verdict?: "success" | "failure" } {
  const successes = isSuccess ? before.successes + 1 : 0;
  const failures = isSuccess ? 0 : before.failures + 1;
  // Measured from the start of the probe. A probe longer than its period is repeated without delay, but never in a tight loop.
  const nextAt = Math.max(before.startedAt + (spec.periodSeconds ?? 10) * 1000, now);
  const probe = { ...before, isRunning: false, nextAt, successes, failures };
  if (isSuccess) return successes >= (spec.successThreshold ?? 1) ? { probe, verdict: "success" } : { probe };
  return failures >= (spec.failureThreshold ?? 3) ? { probe, verdict: "failure" } : { probe };
}
