import { describe, expect, it } from "vitest";
import type { LaunchOrder } from "../pod-environment.ts";
import { mpiexecWords } from "./mpiexec-command.ts";

const wordsOf = (implementation: "OpenMPI" | "MPICH", rest: Partial<LaunchOrder>) =>
  mpiexecWords({
    ...{ implementation, mpiexec: "/usr/bin/mpiexec", agent: "/tmp/a/agent", podIP: "10.0.0.1", workingDirectory: "/" },
    order: { implementation, ranks: 3, command: ["./pi"], ...rest },
  }).join(" ");

describe("mpiexecWords", () => {
  it("names every host with its slots", () => {
    expect(wordsOf("OpenMPI", {})).toContain("-n 3 --host w0:1,w1:1,w2:1 ");
    expect(wordsOf("OpenMPI", { slots: 2 })).toContain("-n 3 --host w0:2,w1:1 ");
    expect(wordsOf("MPICH", {})).toContain("-n 3 -hosts w0,w1,w2 ");
    expect(wordsOf("MPICH", { slots: 2 })).toContain("-n 3 -hosts w0:2,w1 ");
  });

  it("lets ranks of one worker use shared memory", () => {
    expect(wordsOf("OpenMPI", {})).toContain("-mca btl tcp,self ");
    expect(wordsOf("OpenMPI", { slots: 2 })).toContain("-mca btl tcp,self,vader ");
  });
});
