import type { PodEvent } from "../pod/machine/pod-state.ts";
import { probeSpec } from "../pod/machine/pod-state.ts";
import type { ProbeKind } from "./probe-record.ts";
import { type ProbeTarget, runProbe } from "./probe-runner.ts";

/** The time limit of postStart hooks. */
const maxHookMs = 600_000;

/** An attempt of a container, with its program if it has one. */
export interface CheckedAttempt {
  readonly name: string;
  readonly attempt: number;
  readonly target: ProbeTarget | undefined;
}

/** Runs the postStart hook of a container. Undefined if it has none. */
export async function runPostStart({ name, attempt, target }: CheckedAttempt): Promise<PodEvent | undefined> {
  const hook = target?.container.lifecycle?.postStart;
  if (target === undefined || hook === undefined) return undefined;
  const problem = await runProbe(hook, target, maxHookMs);
  return { kind: "hooked", name, attempt, ...(problem === undefined ? {} : { problem: `PostStartHook failed: ${problem}` }) };
}

/** Runs a probe of a container. Undefined if it has none of this kind. */
export function runContainerProbe(probe: ProbeKind): (checked: CheckedAttempt) => Promise<PodEvent | undefined> {
  return async ({ name, attempt, target }) => {
    const spec = target && probeSpec(target.container, probe);
    if (target === undefined || spec === undefined) return undefined;
    const problem = await runProbe(spec, target, (spec.timeoutSeconds ?? 1) * 1000);
    return { kind: "probed", name, attempt, probe, ...(problem === undefined ? {} : { problem }) };
  };
}
