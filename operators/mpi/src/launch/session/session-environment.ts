import type { LaunchOrder } from "../pod-environment.ts";

/** The directory of a session, as far as its environment names it. */
interface SessionPaths {
  readonly agent: string;
  readonly hostfile: string;
  readonly path: string;
}

/** The PATH of a launcher that has none. */
export const defaultPath = "/usr/local/bin:/usr/bin:/bin";

/** The worker whose host name or first label is `host`. */
export function workerOfName(hosts: readonly string[], host: string): number | undefined {
  const name = host.replace(/^[^@]*@/, "");
  const index = hosts.findIndex((each) => each === name || each.split(".")[0] === name.split(".")[0]);
  return index < 0 ? undefined : index;
}

/** The hostfile of a session, in the format of its MPI. */
export function sessionHostfile({ hosts = [], slots = 1, implementation }: LaunchOrder): string {
  return hosts.map((host) => (implementation === "MPICH" ? `${host}:${slots}\n` : `${host} slots=${slots}\n`)).join("");
}

/**
 * The variables with which mpiexec of any MPI starts its daemons through the agent, on the hosts of the session.
 */
export function sessionEnvironment(
  order: LaunchOrder,
  { agent, hostfile, path }: SessionPaths,
  environment: Readonly<Record<string, string>>,
  podIP: string,
): Record<string, string> {
  // Pods that are processes on one machine have only the loopback interface, and each of them assumes that it owns the machine's cores.
  const onOneMachine: Record<string, string> = podIP.startsWith("127.")
    ? {
        OMPI_MCA_btl_tcp_if_include: "lo",
        OMPI_MCA_oob_tcp_if_include: "lo",
        OMPI_MCA_mpi_yield_when_idle: "1",
        OMPI_MCA_hwloc_base_binding_policy: "none",
        HYDRA_IFACE: "lo",
      }
    : {};
  return {
    ...onOneMachine,
    OMPI_ALLOW_RUN_AS_ROOT: "1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1",
    OMPI_MCA_plm: "rsh",
    OMPI_MCA_plm_rsh_agent: agent,
    // The daemons stay in the foreground, so that their workers see them end, and workers have no agent to start others.
    OMPI_MCA_orte_leave_session_attached: "1",
    OMPI_MCA_plm_rsh_no_tree_spawn: "1",
    OMPI_MCA_plm_rsh_num_concurrent: String(Math.max(128, order.hosts?.length ?? 0)),
    OMPI_MCA_orte_keep_fqdn_hostnames: "true",
    OMPI_MCA_orte_default_hostfile: hostfile,
    HYDRA_LAUNCHER: "ssh",
    HYDRA_LAUNCHER_EXEC: agent,
    HYDRA_HOST_FILE: hostfile,
    I_MPI_HYDRA_BOOTSTRAP: "ssh",
    I_MPI_HYDRA_BOOTSTRAP_EXEC: agent,
    I_MPI_HYDRA_HOST_FILE: hostfile,
    I_MPI_PERHOST: String(order.slots ?? 1),
    TMPDIR: path,
    PATH: `${path}:${environment.PATH ?? defaultPath}`,
  };
}
