import { readdirSync, readFileSync } from "node:fs";
import { programFolder } from "../program/files/program-folder.ts";

/** Finds the host pid of a program's process by its pid in the program's pid namespace. */
export function outsidePid(dir: string, id: string, pid: number): number {
  const { tag } = programFolder(dir, id);
  for (const name of readdirSync("/proc").filter((each) => /^\d+$/.test(each))) {
    try {
      const inside = /^NSpid:\s+\d+\s+(\d+)$/m.exec(readFileSync(`/proc/${name}/status`, "latin1"))?.[1];
      const group = readFileSync(`/proc/${name}/cgroup`, "latin1").includes(tag);
      const tagged = group || readFileSync(`/proc/${name}/environ`, "latin1").includes(tag);
      if (Number(inside) === pid && tagged) return Number(name);
    } catch {
      // Already terminated.
    }
  }
  return -1;
}
