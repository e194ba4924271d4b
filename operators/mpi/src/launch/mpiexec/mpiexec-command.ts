import type { LaunchOrder, MpiImplementation } from "../pod-environment.ts";
import { ranksOfHosts } from "../launcher/host-layout.ts";
import { wrapRank } from "../rank-wrapper.ts";
import { markOptions } from "./rank-lines.ts";

/** Parameters of an mpiexec that starts remote processes through the agent. */
export interface MpiexecCall {
  readonly implementation: MpiImplementation;
  /** Path of mpiexec. */
  readonly mpiexec: string;
  /** Path of the program that mpiexec calls instead of ssh. */
  readonly agent: string;
  readonly order: LaunchOrder;
  readonly podIP: string;
  readonly workingDirectory: string;
}

/** Host name of worker `index` for mpiexec. It is never resolved. */
export function workerHost(index: number): string {
  return `w${index}`;
}

/** The worker with this host name. */
export function workerOfHost(host: string): number | undefined {
  return /^w\d{1,6}$/.test(host) ? Number(host.slice(1)) : undefined;
}

const mca = (name: string, value: string): string[] => ["-mca", name, value];

/** Ranks of one worker communicate by shared memory, without reading each other's memory, which containers forbid. */
const sharedMemory: readonly string[] = [...mca("btl", "tcp,self,vader"), ...mca("btl_vader_single_copy_mechanism", "none")];

/** The command that starts mpiexec. */
export function mpiexecWords(call: MpiexecCall): string[] {
  const { order, mpiexec } = call;
  const options = call.implementation === "OpenMPI" ? openMpiOptions(call) : mpichOptions(call);
  const marks = order.labelsOutput === true ? markOptions[call.implementation] : [];
  return [mpiexec, ...marks, ...options, ...wrapRank(order.command)];
}

function mpichOptions({ agent, order, podIP, workingDirectory }: MpiexecCall): string[] {
  // A host without a number has one slot.
  const hosts = ranksOfHosts(order).map((ranks, index) => (ranks === 1 ? workerHost(index) : `${workerHost(index)}:${ranks}`));
  return [
    ...["-launcher", "ssh", "-launcher-exec", agent],
    "-disable-hostname-propagation",
    // Otherwise the launcher's environment replaces that of the workers.
    "-genvnone",
    // Proxies find mpiexec by address, because workers may not be able to resolve the launcher's name.
    ...["-localhost", podIP],
    ...["-wdir", workingDirectory],
    ...["-n", String(order.ranks), "-hosts", hosts.join(",")],
  ];
}

function openMpiOptions({ agent, order, podIP, workingDirectory }: MpiexecCall): string[] {
  const hosts = ranksOfHosts(order).map((ranks, index) => `${workerHost(index)}:${ranks}`);
  // Pods that are processes on one machine have only the loopback interface, which Open MPI excludes by default, and each of them
  // assumes that it owns the machine's cores.
  const onOneMachine = podIP.startsWith("127.")
    ? [...mca("btl_tcp_if_include", "lo"), ...mca("oob_tcp_if_include", "lo"), ...mca("mpi_yield_when_idle", "1")]
    : [];
  return [
    "--allow-run-as-root",
    // The daemon keeps the worker's Pod alive, so it must stay in the foreground.
    "--leave-session-attached",
    // With a prefix, the launch line contains shell code.
    "--noprefix",
    ...["--bind-to", "none"],
    ...mca("plm", "rsh"),
    ...mca("plm_rsh_agent", agent),
    // Workers have no agent to start other workers.
    ...mca("plm_rsh_no_tree_spawn", "1"),
    ...mca("plm_rsh_num_concurrent", String(Math.max(128, order.ranks))),
    ...((order.slots ?? 1) > 1 ? sharedMemory : mca("btl", "tcp,self")),
    // MPI_Comm_spawn starts ranks in addition to those that fill the slots.
    ...mca("rmaps_base_oversubscribe", "1"),
    ...onOneMachine,
    ...["-wdir", workingDirectory],
    ...["-n", String(order.ranks), "--host", hosts.join(",")],
  ];
}
