import { type ProbeTarget, runProbe } from "../probes/probe-runner.ts";

/** What is left of a grace that a preStop hook has used up. */
const leastMs = 2000;

/**
 * Stops a container's program: its preStop hook, its signal, and what is left of `graceMs` (0: at once, without the hook). Resolves when
 * nothing of it runs. `onProblem` is told what went wrong with the hook.
 */
export async function stopContainer(place: ProbeTarget, graceMs: number, onProblem: (problem: string) => void): Promise<void> {
  const { program, container, clock } = place;
  const began = clock.monotonic();
  const hook = graceMs > 0 ? container.lifecycle?.preStop : undefined;
  const problem = hook !== undefined && program.state.kind === "running" ? await runProbe(hook, place, graceMs) : undefined;
  if (problem !== undefined) onProblem(problem);
  const left = Math.max(graceMs - (clock.monotonic() - began), hook === undefined ? 0 : leastMs);
  if (left === 0) program.signal("SIGKILL");
  await program.stop({ graceMs: Math.round(left) });
}
