/* Processes and randomness of middleware-faults.mjs. */
import { readdirSync, readFileSync } from "node:fs";

/** A small seeded generator (mulberry32). */
export function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Process ids of a Pod's agent, and of its server with its children. */
export function processesOf({ agent, home }) {
  const stats = readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      const command = readFileSync(`/proc/${name}/cmdline`, "utf8");
      return [{ pid: Number(name), parent: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]), command }];
    } catch {
      return [];
    }
  });
  const isServer = ({ parent, command }) => parent === agent.pid && !command.startsWith("sh");
  const server = stats.find(isServer)?.pid;
  const children = stats.filter(({ parent }) => parent === server).map(({ pid, command }) => ({ pid, command }));
  return { agent: agent.pid, server, children, home };
}
/** Signals processes, of which some may have ended. */
export const signal = (pids, name) => {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // It has ended.
    }
  }
};
/** Stops processes for a time. */
export async function freeze(pids, ms) {
  signal(pids, "SIGSTOP");
  await new Promise((resolve) => setTimeout(resolve, ms));
  signal(pids, "SIGCONT");
}
