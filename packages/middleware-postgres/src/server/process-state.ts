import { readFile } from "node:fs/promises";

/** The state of a process, such as `S`, or `T` if it is stopped: field 3 of its `stat`. Undefined if it has ended. */
export async function stateOfProcess(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return stat === "" ? undefined : stat[stat.lastIndexOf(")") + 2];
}
