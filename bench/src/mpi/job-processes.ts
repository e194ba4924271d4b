import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** A process, as far as it matters for finding the processes of a job. */
interface ProcessView {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

/** The processes of a running RhinoJob whose Pods are processes of this machine. */
export interface JobProcesses {
  readonly launcher: number;
  readonly worker: number;
  readonly mpiexec: number;
  readonly daemon: number;
  readonly rank: number;
}

/** The agent of a launcher or worker with a variable; undefined if it has not started. */
export function findAgent(part: "launcher" | "worker", variables: Readonly<Record<string, string>>): number | undefined {
  return allProcesses().find(
    ({ pid }) =>
      read(pid, "cmdline").startsWith(`keelson-mpi-${part}`) &&
      Object.entries(variables).every(([name, value]) => read(pid, "environ").split("\0").includes(`${name}=${value}`)),
  )?.pid;
}

/** The processes of a job: those of its launcher, and those of worker 1. **Errors**: one that is missing. */
export function findJobProcesses(uid: string): JobProcesses {
  const launcher = found("the launcher", findAgent("launcher", { KEELSON_MPI_READY: `keelson-mpi-${uid}` }));
  const address = /(?:^|\0)KEELSON_MPI_POD_IP=([^\0]*)/.exec(read(launcher, "environ"))?.[1] ?? "";
  const worker = found(
    "worker 1",
    findAgent("worker", { KEELSON_MPI_LAUNCHER: `${address}:21000`, JOB_COMPLETION_INDEX: "1" }),
  );
  return {
    launcher,
    worker,
    mpiexec: descendant(launcher, /^(?:orterun|mpiexec)/),
    daemon: descendant(worker, /^(?:orted|hydra_pmi)/),
    rank: descendant(worker, /^sleeping-rank/),
  };
}

/** Local ports of the TCP sockets that a process and its descendants have. */
export function portsOf(pid: number): readonly number[] {
  const inodes = new Set([pid, ...descendants(pid).map((each) => each.pid)].flatMap(socketInodes));
  const lines = readFileSync("/proc/net/tcp", "utf8").trim().split("\n").slice(1);
  return lines.flatMap((line) => {
    const [, local = "", , , , , , , , inode = ""] = line.trim().split(/\s+/);
    return inodes.has(inode) ? [Number.parseInt(local.split(":")[1] ?? "", 16)] : [];
  });
}

function socketInodes(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1];
      return inode === undefined ? [] : [inode];
    });
  } catch {
    return []; // It has exited.
  }
}

function descendant(pid: number, command: RegExp): number {
  return found(command.source, descendants(pid).find((each) => command.test(each.command))?.pid);
}

function descendants(pid: number): readonly ProcessView[] {
  const all = allProcesses();
  const below = (parent: number): readonly ProcessView[] =>
    all.filter((each) => each.parent === parent).flatMap((each) => [each, ...below(each.pid)]);
  return below(pid);
}

function allProcesses(): readonly ProcessView[] {
  return readdirSync("/proc").flatMap((name) => {
    const match = /^\d+ \((.*)\) \S (\d+) /s.exec(/^\d+$/.test(name) ? read(Number(name), "stat") : "");
    return match === null ? [] : [{ pid: Number(name), parent: Number(match[2]), command: match[1] ?? "" }];
  });
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return ""; // It has exited.
  }
}

function found(what: string, pid: number | undefined): number {
  if (pid === undefined) throw new Error(`process not found: ${what}`);
  return pid;
}
