/* CPU time of tests. Unlike their duration, it does not depend on what else the machine does. */
import { readFileSync } from "node:fs";

/** Clock ticks per second in `/proc`, a constant of Linux on every architecture that Node.js supports. */
const ticksPerSecond = 100;

/**
 * User and system time of this process and of every program that it started and waited for, with the programs that those waited for, in
 * seconds. Where there is no `/proc`, only that of this process.
 */
export function processorSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + childTicks() / ticksPerSecond;
}

function childTicks() {
  try {
    const stat = readFileSync("/proc/self/stat", "latin1");
    // Fields 16 and 17, cutime and cstime. The second field, a name in parentheses, can contain spaces.
    const [user, system] = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(13, 15);
    return Number(user) + Number(system);
  } catch {
    return 0;
  }
}
