import { readFile } from "node:fs/promises";

/** All running descendants of a process. */
export async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const own = text
    .split(" ")
    .map(Number)
    .filter((child) => child > 0);
  return [...own, ...(await Promise.all(own.map(childrenOf))).flat()];
}
