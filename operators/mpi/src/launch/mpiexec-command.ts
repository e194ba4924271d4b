import type { LaunchOrder, MpiImplementation } from "./pod-environment.ts";

/** How mpiexec is called so that it starts nothing on other hosts by itself but asks the agent to. */
export interface MpiexecCall {
  readonly implementation: MpiImplementation;
  /** Path of mpiexec. */
  readonly mpiexec: string;
  /** Path of the program that mpiexec calls in ssh's place. */
  readonly agent: string;
  readonly order: LaunchOrder;
  readonly podIP: string;
  readonly workingDirectory: string;
}

/** The name that mpiexec knows worker `index` by. It is never looked up. */
export function workerHost(index: number): string {
  return `w${index}`;
}

/** The worker with this name. */
export function workerOfHost(host: string): number | undefined {
  return /^w\d{1,6}$/.test(host) ? Number(host.slice(1)) : undefined;
}

/** The words that start mpiexec. */
export function mpiexecWords(call: MpiexecCall): string[] {
  const { order, mpiexec } = call;
  const options = call.implementation === "OpenMPI" ? openMpiOptions(call) : mpichOptions(call);
  return [mpiexec, ...options, ...order.command];
}

function mpichOptions({ agent, order, podIP, workingDirectory }: MpiexecCall): string[] {
  const hosts = Array.from({ length: order.ranks }, (_, index) => workerHost(index)).join(",");
  return [
    ...["-launcher", "ssh", "-launcher-exec", agent],
    "-disable-hostname-propagation",
    // Else the launcher's whole environment replaces that of the workers.
    "-genvnone",
    // Where proxies find mpiexec: by address, as the launcher's name need not be known to workers.
    ...["-localhost", podIP],
    ...["-wdir", workingDirectory],
    ...["-n", String(order.ranks), "-hosts", hosts],
  ];
}

function openMpiOptions({ agent, order, podIP, workingDirectory }: MpiexecCall): string[] {
  const hosts = Array.from({ length: order.ranks }, (_, index) => `${workerHost(index)}:1`).join(",");
  const mca = (name: string, value: string): string[] => ["-mca", name, value];
  // Pods that are programs on one machine have only the loopback interface, which Open MPI leaves out by itself; and each of
  // them believes that the machine's cores are its own.
  const onOneMachine = podIP.startsWith("127.")
    ? [...mca("btl_tcp_if_include", "lo"), ...mca("oob_tcp_if_include", "lo"), ...mca("mpi_yield_when_idle", "1")]
    : [];
  return [
    "--allow-run-as-root",
    // The daemon is what keeps the worker's Pod alive, so it must not go to the background.
    "--leave-session-attached",
    // A prefix puts shell code before the daemon.
    "--noprefix",
    ...["--bind-to", "none"],
    ...mca("plm", "rsh"),
    ...mca("plm_rsh_agent", agent),
    // Workers have no agent to start further workers with.
    ...mca("plm_rsh_no_tree_spawn", "1"),
    ...mca("plm_rsh_num_concurrent", String(Math.max(128, order.ranks))),
    ...mca("btl", "tcp,self"),
    ...onOneMachine,
    ...["-wdir", workingDirectory],
    ...["-n", String(order.ranks), "--host", hosts],
  ];
}
