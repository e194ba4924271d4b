import { type ProbeTarget, runProbe } from "../probes/probe-runner.ts";

/** The minimum grace period after a preStop hook, as in the kubelet. */
const minGraceMs = 2000;

/**
 * Stops a container's program: runs its preStop hook, then stops it within the rest of `graceMs` (0: kills it without the hook).
 * Resolves when nothing of it runs. `onProblem` receives the failure of the hook.
 */
export async function stopContainer(target: ProbeTarget, graceMs: number, onProblem: (problem: string) => void): Promise<void> {
  const { program, container, clock } = target;
  const startedAt = clock.monotonic();
  const hook = graceMs > 0 ? container.lifecycle?.preStop : undefined;
  const problem = hook !== undefined && program.state.kind === "running" ? await runProbe(hook, target, graceMs) : undefined;
  if (problem !== undefined) onProblem(problem);
  const left = Math.max(graceMs - (clock.monotonic() - startedAt), hook === undefined ? 0 : minGraceMs);
  if (left === 0) program.signal("SIGKILL");
  await program.stop({ graceMs: Math.round(left) });
}
