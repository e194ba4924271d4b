import { createHash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";

/** Finds out whether the process that holds a lease has exited. */
export interface ProcessInspector {
  /** Identifies this process, without spaces. `undefined` if that is not possible here. */
  self(): string | undefined;
  /** Whether the process has certainly exited. False for a process of another machine, of which nothing is known. */
  hasExited(process: string): boolean;
}

/**
 * {@link ProcessInspector} for Linux. A process is identified by its machine, its id and its start time, so that a reused process id
 * is not mistaken for it. The machine is a hash of its boot id and the PID namespace: a process id means nothing outside of them.
 */
export const linuxProcesses: ProcessInspector = {
  self: () => identifyProcess(process.pid),

  hasExited(id) {
    const [machine, pid, startTime] = id.split("/");
    if (startTime === undefined || !/^[1-9]\d{0,9}$/.test(pid ?? "") || machine === undefined || machine !== machineId())
      return false;
    try {
      // Fails with EPERM for a process of another user, even if /proc hides it: such a process is alive.
      process.kill(Number(pid), 0);
    } catch (error) {
      return error instanceof Error && "code" in error && error.code === "ESRCH";
    }
    const status = statusOf(Number(pid));
    // A zombie has no open connections any more.
    return status !== undefined && (status.startTime !== startTime || status.state === "Z");
  },
};

/** Identifies a running process of this machine for {@link ProcessInspector.hasExited}. `undefined` if that is not possible. */
export function identifyProcess(pid: number): string | undefined {
  const machine = machineId();
  const status = statusOf(pid);
  return machine === undefined || status === undefined ? undefined : `${machine}/${pid}/${status.startTime}`;
}

function machineId(): string | undefined {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return createHash("sha256")
      .update(`${boot} ${readlinkSync("/proc/self/ns/pid")}`)
      .digest("hex")
      .slice(0, 16);
  } catch {
    return undefined;
  }
}

/** Fields 3 (state) and 22 (start time in clock ticks since boot) of proc_pid_stat(5). */
function statusOf(pid: number): { readonly state: string; readonly startTime: string } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Field 2 is the program's name in parentheses, and may contain spaces and parentheses itself.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state, startTime] = [fields[0], fields[19]];
    return state === undefined || startTime === undefined ? undefined : { state, startTime };
  } catch {
    return undefined;
  }
}
