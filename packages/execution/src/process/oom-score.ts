import { readFileSync, writeFileSync } from "node:fs";

const scoreFile = "/proc/self/oom_score_adj";

/**
 * Calls `spawn`, which must start its process before it returns, so that the process has a lower score than this one, see
 * `ProgramSpec.oomScoreAdjustment`. Only root may lower a score, and a process of another user could not do it for itself. Higher scores
 * are left to the process, because its shim must outlive it. Where the score cannot be lowered, the process has that of this one.
 */
export function withLowerScore<T>(score: number | undefined, spawn: () => T): T {
  if (score === undefined || score >= 0) return spawn();
  const own = readFileSync(scoreFile, "latin1");
  if (score >= Number(own) || !write(String(score))) return spawn();
  try {
    return spawn();
  } finally {
    write(own);
  }
}

/** A score, or this process's own if that is higher and cannot be lowered, as in most containers. */
export function attainableScore(score: number): number {
  const own = Number(readFileSync(scoreFile, "latin1"));
  if (score >= own) return score;
  const isLowered = withLowerScore(score, () => Number(readFileSync(scoreFile, "latin1")) === score);
  return isLowered ? score : own;
}

function write(score: string): boolean {
  try {
    writeFileSync(scoreFile, score);
    return true;
  } catch {
    return false;
  }
}
