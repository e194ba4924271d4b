import { readFile } from "node:fs/promises";

/** Processes that a process has started and that still run, with theirs. */
export async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const own = text
    .split(" ")
    .map(Number)
    .filter((child) => child > 0);
  return [...own, ...(await Promise.all(own.map(childrenOf))).flat()];
}
