/* Finds processes that tests left running. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout } from "node:timers/promises";

/** Processes that were asked to stop exit within this time, even on a busy machine. */
const graceMs = 15_000;
const pollMs = 250;

/**
 * Processes that belong to a directory with a unique name: their command line, environment or working directory names it, or they descend
 * from one of these, as programs of Pods do. Waits until there are none, for up to `waitMs` (15 s). Finds none where there is no `/proc`.
 *
 * Mounts prove nothing: every process of the machine sees those of a container runtime.
 */
export async function remainingProcesses(folder, waitMs = graceMs) {
  const deadline = performance.now() + waitMs;
  for (;;) {
    const found = processesOf(`/${basename(folder)}`);
    if (found.length === 0 || performance.now() > deadline) return found;
    await setTimeout(pollMs);
  }
}

function processesOf(name) {
  const all = pids().flatMap((pid) => readProcess(pid, name));
  const found = new Set(all.filter(({ isOurs }) => isOurs).map(({ pid }) => pid));
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return all.filter(({ pid }) => found.has(pid));
}

function readProcess(pid, name) {
  try {
    const read = (file) => readFileSync(`/proc/${pid}/${file}`, "latin1");
    const command = read("cmdline").replaceAll("\0", " ").trim();
    const stat = read("stat");
    const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
    const isOurs = [command, read("environ"), readlinkSync(`/proc/${pid}/cwd`)].some((text) => text.includes(name));
    return [{ pid, parent, command, isOurs }];
  } catch {
    // The process has exited, or belongs to another user.
    return [];
  }
}

function pids() {
  try {
    return readdirSync("/proc")
      .filter((entry) => /^\d+$/.test(entry) && entry !== String(process.pid))
      .map(Number);
  } catch {
    return [];
  }
}
