import { describe, expect, it } from "vitest";
import { withLauncherAddress } from "../mpiexec/worker-command.ts";
import type { LaunchOrder } from "../pod-environment.ts";
import { sessionEnvironment, sessionHostfile, workerOfName } from "./session-environment.ts";

const hosts = ["pi-worker-0.pi.default.svc", "pi-worker-1.pi.default.svc"];
const order = (rest: Partial<LaunchOrder>): LaunchOrder => ({
  implementation: "OpenMPI",
  ranks: 4,
  slots: 2,
  command: ["sh"],
  hosts,
  ...rest,
});
const paths = { agent: "/tmp/k/agent", hostfile: "/tmp/k/hostfile", path: "/tmp/k" };

describe("the environment of a session", () => {
  it("finds a worker by its host name, the first label of it, and with a user", () => {
    expect(["pi-worker-1.pi.default.svc", "pi-worker-1", "root@pi-worker-1"].map((host) => workerOfName(hosts, host))).toEqual([
      1, 1, 1,
    ]);
    expect(workerOfName(hosts, "pi-worker-2")).toBeUndefined();
  });

  it("has a hostfile in the format of the MPI", () => {
    expect(sessionHostfile(order({}))).toBe(`${hosts[0]} slots=2\n${hosts[1]} slots=2\n`);
    expect(sessionHostfile(order({ implementation: "MPICH" }))).toBe(`${hosts[0]}:2\n${hosts[1]}:2\n`);
  });

  it("lets every MPI start its daemons through the agent, which also is ssh", () => {
    const environment = sessionEnvironment(order({}), paths, { PATH: "/bin" }, "10.0.0.7");
    expect(environment).toMatchObject({
      OMPI_MCA_plm_rsh_agent: paths.agent,
      HYDRA_LAUNCHER_EXEC: paths.agent,
      I_MPI_HYDRA_BOOTSTRAP_EXEC: paths.agent,
      I_MPI_PERHOST: "2",
      PATH: "/tmp/k:/bin",
    });
    expect(environment.HYDRA_IFACE).toBeUndefined();
    expect(sessionEnvironment(order({}), paths, {}, "127.0.0.7").HYDRA_IFACE).toBe("lo");
  });

  it("replaces the launcher's name in the command of MPICH's daemon by its address", () => {
    const words = ["hydra_pmi_proxy", "--control-port", "pi-launcher:40123", "--proxy-id", "0"];
    expect(withLauncherAddress(words, "10.0.0.7")[2]).toBe("10.0.0.7:40123");
    expect(withLauncherAddress(["echo", "a:1"], "10.0.0.7")).toEqual(["echo", "a:1"]);
  });
});
