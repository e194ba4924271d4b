import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ProcessState } from "@keelson/sandbox/protocol";
import { type LocalSandboxes, startLocalSandboxes } from "./testing/local-sandboxes.ts";

describe("processes of a sandbox", () => {
  let local: LocalSandboxes;
  const sandboxName = "one";
  const shell = (script: string) => ({ sandboxName, command: ["sh", "-c", script] });

  beforeAll(async () => {
    local = await startLocalSandboxes();
    await local.pool();
    await local.sandbox("one", { envs: [{ name: "WHO", value: "a b" }] });
    await local.phase("one", "Running");
  });

  afterAll(() => local.stop());

  async function follow(
    processId: string,
    offset = 0n,
  ): Promise<{ stdout: string; stderr: string; lost: bigint; end: object }> {
    const seen = { stdout: "", stderr: "", lost: 0n, end: {} };
    for await (const { output } of local.processes.output({ sandboxName, processId, offset })) {
      if (output.case === "stdout") seen.stdout += Buffer.from(output.value).toString();
      else if (output.case === "stderr") seen.stderr += Buffer.from(output.value).toString();
      else if (output.case === "lostBytes") seen.lost += output.value;
      else seen.end = { state: output.value?.state, exitCode: output.value?.exitCode };
    }
    return seen;
  }

  it("run with variables, a directory and input, and their output can be read again from an offset", async () => {
    const { processId } = await local.processes.start({
      ...shell('echo "$WHO $WHAT"; pwd; cat; echo error >&2; exit 6'),
      ...{ env: { WHAT: "c" }, workingDir: "/tmp", stdin: true, maxUnattendedMs: 60_000n },
    });
    const input = { sandboxName, processId, data: Buffer.from("typed\n") };
    expect((await local.processes.writeInput(input)).acceptedBytes).toBe(6n);
    expect((await local.processes.writeInput({ ...input, end: true })).acceptedBytes).toBe(6n);
    const end = { state: ProcessState.EXITED, exitCode: 6 };
    expect(await follow(processId)).toEqual({ stdout: "a b c\n/tmp\ntyped\n", stderr: "error\n", lost: 0n, end });
    expect((await follow(processId, 11n)).stdout).toBe("typed\n");
    expect((await local.processes.list({ sandboxName })).processes).toMatchObject([{ processId, exitCode: 6 }]);
  });

  it("keep the end of a long output in the background, and all of it for a reader", async () => {
    const long = shell("yes 0123456 | head -c 3000000");
    const background = await local.processes.start(long);
    await expect
      .poll(
        async () =>
          (await local.processes.list({ sandboxName })).processes.find((each) => each.processId === background.processId)
            ?.state,
      )
      .toBe(ProcessState.EXITED);
    const { stdout, lost } = await follow(background.processId);
    expect([stdout.length, lost]).toEqual([512 * 1024, 3_000_000n - 524_288n]);
    const read = await local.processes.start({ ...long, maxUnattendedMs: 60_000n });
    const whole = await follow(read.processId);
    expect([whole.stdout.length, whole.stdout === "0123456\n".repeat(375_000), whole.lost]).toEqual([3_000_000, true, 0n]);
  });

  it("handle signals and end after their timeout, on a terminal or without", async () => {
    for (const terminal of [undefined, { columns: 80, rows: 24 }]) {
      const { processId } = await local.processes.start({
        ...shell("trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 600 & wait $!; done"),
        ...(terminal && { terminal }),
        maxUnattendedMs: 60_000n,
      });
      let stdout = "";
      for await (const { output } of local.processes.output({ sandboxName, processId })) {
        if (output.case !== "stdout") continue;
        stdout += Buffer.from(output.value).toString();
        if (stdout.includes("ready")) await local.processes.signal({ sandboxName, processId, signal: "SIGTERM" });
      }
      expect(stdout).toMatch(/^ready\r?\n(Terminated\r?\n)?caught\r?\n$/);
    }
    const { processId } = await local.processes.start({ ...shell("sleep 600"), timeoutMs: 1n });
    expect((await follow(processId)).end).toEqual({ state: ProcessState.TIMED_OUT, exitCode: 137 });
  });

  it("are killed if their start is cancelled or nothing follows them", async () => {
    const abandoned = await local.processes.start({ ...shell("sleep 600"), maxUnattendedMs: 1n });
    const state = async (id: string) =>
      (await local.processes.list({ sandboxName })).processes.find(({ processId }) => processId === id)?.state;
    await expect.poll(() => state(abandoned.processId)).toBe(ProcessState.ABANDONED);
    const control = new AbortController();
    const starting = local.processes.start({ ...shell("sleep 600"), processId: "cancelled" }, { signal: control.signal });
    control.abort();
    await expect(starting).rejects.toMatchObject({ code: Code.Canceled });
    await expect.poll(() => state("cancelled")).not.toBe(ProcessState.RUNNING);
  });

  it("are rejected with the field's name", async () => {
    const faults = [
      { command: [] },
      { ...shell("true"), processId: "../x" },
      { ...shell("true"), workingDir: "tmp" },
      { ...shell("true"), timeoutMs: -1n },
      { ...shell("true"), terminal: { columns: 0, rows: 1 } },
    ];
    for (const fault of faults)
      await expect(local.processes.start({ sandboxName, ...fault })).rejects.toMatchObject({ code: Code.InvalidArgument });
    const unknown = { sandboxName, processId: "none" };
    await expect(local.processes.signal(unknown)).rejects.toMatchObject({ code: Code.NotFound });
    await expect(local.processes.signal({ ...unknown, signal: "SIGNONE" })).rejects.toMatchObject({
      code: Code.InvalidArgument,
    });
    await expect(follow("none")).rejects.toMatchObject({ code: Code.NotFound });
  });
});
