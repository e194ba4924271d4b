/* Finds processes that tests left running. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout } from "node:timers/promises";

/** Processes that were asked to stop exit within this time, even on a busy machine. */
const graceMs = 15_000;
const pollMs = 250;

/**
 * Processes that belong to a folder with a unique name: their command line, environment, working directory or mounts name it. Programs of
 * Pods have an environment and a root of their own, but their mounts show where these come from. Waits until there are none, for up to
 * 15 s. Finds none where there is no `/proc`.
 */
export async function remainingProcesses(folder) {
  const deadline = performance.now() + graceMs;
  for (;;) {
    const found = processesOf(`/${basename(folder)}`);
    if (found.length === 0 || performance.now() > deadline) return found;
    await setTimeout(pollMs);
  }
}

function processesOf(name) {
  return pids().flatMap((pid) => {
    try {
      const read = (file) => readFileSync(`/proc/${pid}/${file}`, "latin1");
      const command = read("cmdline").replaceAll("\0", " ").trim();
      const places = [command, read("environ"), readlinkSync(`/proc/${pid}/cwd`), read("mountinfo")];
      return places.some((place) => place.includes(name)) ? [{ pid, command }] : [];
    } catch {
      // The process has exited, or belongs to another user.
      return [];
    }
  });
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
