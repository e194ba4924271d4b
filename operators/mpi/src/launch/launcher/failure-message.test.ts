import { describe, expect, it } from "vitest";
import { describeRankFailure, lostAbortMessage, mpiexecMessage, withoutAgentRaces } from "./failure-message.ts";

const describeExit = (exitCode: number, stderr = "") =>
  describeRankFailure({ rank: 1, worker: 1, exitCode, at: 0 }, "./pi", stderr);

const openMpiSegfault = `[vm:29957] *** Process received signal ***
[vm:29957] Signal: Segmentation fault (11)
[vm:29957] [ 1] ./bad.openmpi(+0x122a)[0x55655110522a]
[vm:29957] *** End of error message ***
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpiexec.openmpi noticed that process rank 1 with PID 0 on node w1 exited on signal 11 (Segmentation fault).
--------------------------------------------------------------------------
`;
const mpichSegfault = `[vm:31869:0:31869] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))
==== backtrace (tid:  31869) ====
 0  /lib/x86_64-linux-gnu/libucs.so.0(ucs_handle_error+0x2dc) [0x7fad13c80e9c]
=================================
keelson mpi launcher: worker 0 exited with 7
[mpiexec@vm] HYDT_bscu_wait_for_completion (tools/bootstrap/utils/bscu_wait.c:73): one of the processes terminated badly; aborting
`;

describe("describeRankFailure", () => {
  it("names rank, worker, exit code or signal, and the program's last line", () => {
    expect(describeExit(139, openMpiSegfault)).toBe("rank 1 on worker 1 failed: killed by SIGSEGV (signal 11)");
    expect(describeExit(139, "keelson-rank: 3: x\nSegmentation fault\n")).toBe(
      "rank 1 on worker 1 failed: killed by SIGSEGV (signal 11)",
    );
    expect(describeExit(139, mpichSegfault)).toBe("rank 1 on worker 1 failed: killed by SIGSEGV (signal 11)");
    expect(describeExit(4, `input.dat: no such mesh\n${openMpiSegfault.slice(openMpiSegfault.indexOf("---"))}`)).toBe(
      "rank 1 on worker 1 failed: exit code 4: input.dat: no such mesh",
    );
    expect(describeExit(3)).toBe("rank 1 on worker 1 failed: exit code 3");
  });

  it("does not take what other ranks of Open MPI say about the loss for the program's own line", () => {
    const loss =
      "[vm][[21409,1],0][../opal/mca/btl/tcp/btl_tcp.c:559:mca_btl_tcp_recv_blocking] recv(17) failed: Connection reset by peer (104)\n";
    const [crash = "", end = ""] = openMpiSegfault.split(/(?<=error message \*\*\*\n)/);
    expect(describeExit(139, `input.dat: no such mesh\n${crash}${loss}Terminated\n${end}`)).toBe(
      "rank 1 on worker 1 failed: killed by SIGSEGV (signal 11): input.dat: no such mesh",
    );
  });

  it("names an abort that Open MPI reports, if it is of this rank", () => {
    const dashes = "-".repeat(74);
    const abort = `${dashes}\nMPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 9.\n${dashes}\n`;
    const message = "rank 1 on worker 1 failed: called MPI_Abort with 9: no such mesh";
    expect(describeExit(9, `no such mesh\n${abort}`)).toBe(message);
    expect(describeExit(9, `${abort}no such mesh\n`)).toBe(message);
    expect(describeExit(9, abort.replace("rank 1", "rank 0"))).toContain("failed: exit code 9");
  });

  it("names a missing program", () => {
    expect(describeExit(127, "")).toBe("rank 1 on worker 1 failed: program ./pi not found (exit code 127)");
    expect(describeExit(126, "")).toBe("rank 1 on worker 1 failed: program ./pi is not executable (exit code 126)");
  });
});

describe("mpiexecMessage", () => {
  it("returns the first block of Open MPI in one line", () => {
    const dashes = "-".repeat(74);
    const text = `${dashes}\nmpiexec.openmpi was unable to launch the specified application as it could not\nchange to the specified working directory:\n\nWorking directory: /nonexist\nNode: w0\n${dashes}\n`;
    expect(mpiexecMessage(text)).toBe(
      "mpiexec.openmpi was unable to launch the specified application as it could not change to the specified working directory: Working directory: /nonexist Node: w0",
    );
  });

  it("returns the first message of MPICH", () => {
    const text = `[proxy:0:0@vm] launch_procs (pm/pmiserv/pmip_cb.c:621): unable to change wdir to /nonexist (No such file or directory)
[proxy:0:0@vm] HYD_pmcd_pmip_control_cmd_cb (pm/pmiserv/pmip_cb.c:906): launch_procs returned error
`;
    expect(mpiexecMessage(text)).toBe("unable to change wdir to /nonexist (No such file or directory)");
    const abort = "Abort(9) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 9) - process 1\n";
    expect(mpiexecMessage(abort)).toBe("rank 1 called MPI_Abort: application called MPI_Abort(MPI_COMM_WORLD, 9) - process 1");
    expect(mpiexecMessage("nothing")).toBeUndefined();
  });
});

describe("withoutAgentRaces", () => {
  it("omits Open MPI's warning about the process group of an agent, and nothing else", () => {
    const warning = "[vm:12] plm:rsh: Warning: setpgid(34,34) failed in parent with errno=Permission denied(13)\n";
    expect(withoutAgentRaces(`one\n${warning}${warning}two\n`)).toBe("one\ntwo\n");
    expect(withoutAgentRaces(warning)).toBe("");
    const other = "setpgid(1,1) failed\n[vm:12] plm:rsh: Error: setpgid(0,0) failed in child\n";
    expect(withoutAgentRaces(other)).toBe(other);
  });
});

describe("lostAbortMessage", () => {
  it("names an abort whose message mpiexec did not wait for, by daemons that only lost mpiexec", () => {
    const message = "mpiexec exited with 9 before its daemons, without a message: a rank probably called MPI_Abort with 9";
    expect(lostAbortMessage(9, [7, 5, 7], "input.dat: no such mesh\n")).toBe(message);
  });

  it.each([
    [9, [143, 7], ""],
    [9, [], ""],
    [137, [7], ""],
    [0, [7], ""],
    [255, [7], ""],
    [1, [7], "[mpiexec@vm] HYDT_bscu_wait_for_completion: error\n"],
  ])("names no abort for an mpiexec that ended with %i, after daemons with %j", (exitCode, daemons, stderr) => {
    expect(lostAbortMessage(exitCode, daemons, stderr)).toBeUndefined();
  });
});
