import { systemClock } from "@keelson/api-machinery/time";
import { Code } from "@connectrpc/connect";
import { Pod } from "@keelson/api-machinery/kinds";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAgentClient } from "./fleet/agent-client.ts";
import { Sandbox } from "./api/sandbox.ts";
import { type LocalSandboxes, namespace, startLocalSandboxes } from "./testing/local-sandboxes.ts";

let local: LocalSandboxes;

describe("exec", () => {
  type Part =
    | { readonly case: "stdin"; readonly value: Buffer }
    | { readonly case: "closeStdin"; readonly value: true }
    | { readonly case: "resize"; readonly value: { readonly columns: number; readonly rows: number } };
  /** Resolves when the last command has written its prompt. */
  let heard: Promise<void> = Promise.resolve();
  const input = (text: string): Part => ({ case: "stdin", value: Buffer.from(text) });

  /** What a command wrote, and its exit code. `parts` are sent when it has written `prompt`; `control` ends the call. */
  async function exec(
    start: {
      sandboxName?: string;
      command: string[];
      terminal?: { columns: number; rows: number };
      env?: Record<string, string>;
      workingDir?: string;
      user?: string;
    },
    parts: readonly Part[] = [{ case: "closeStdin", value: true }],
    prompt = "",
    control = new AbortController(),
  ): Promise<{ stdout: string; stderr: string; exitCode: number | undefined }> {
    let stdout = "";
    let stderr = "";
    let exitCode: number | undefined;
    let wake = (): void => {};
    const prompted = new Promise<void>((resolve) => (wake = resolve));
    heard = prompted;
    async function* requests() {
      yield { request: { case: "start" as const, value: { sandboxName: "one", ...start } } };
      if (prompt !== "") await prompted;
      for (const request of parts) yield { request };
    }
    for await (const { response } of local.streams.exec(requests(), { signal: control.signal })) {
      if (response.case === "stdout") stdout += Buffer.from(response.value).toString();
      else if (response.case === "stderr") stderr += Buffer.from(response.value).toString();
      else exitCode = response.value;
      if (stdout.includes(prompt)) wake();
    }
    return { stdout, stderr, exitCode };
  }

  beforeEach(async () => {
    local = await startLocalSandboxes();
    await local.pool();
    await local.sandbox("one", {
      envs: [{ name: "WHO", value: "a b" }],
      command: ["sh", "-c", "echo $$ >mine; exec sleep 600"],
    });
    await local.phase("one", "Running");
  });

  afterEach(() => local.stop());

  it("runs a command with the sandbox's files, processes and environment, and returns its exit code", async () => {
    const script = 'cat; echo "$WHO" >&2; cat mine; cat /proc/[0-9]*/comm | grep -c sleep; exit 7';
    const done = await exec({ command: ["sh", "-c", script] }, [input("typed\n"), { case: "closeStdin", value: true }]);
    expect(done).toEqual({ stdout: "typed\n2\n1\n", stderr: "a b\n", exitCode: 7 });
  });

  it("runs a command with variables, a working directory and a long argument", async () => {
    const script = 'echo "$WHO $WHAT"; pwd; echo ${#1}';
    const start = { env: { WHAT: "c=d" }, workingDir: "/tmp", command: ["sh", "-c", script, "sh", "x".repeat(100_000)] };
    expect((await exec(start)).stdout).toBe("a b c=d\n/tmp\n100000\n");
    const faults: readonly { readonly env?: Record<string, string>; readonly workingDir?: string }[] = [
      { workingDir: "tmp" },
      { env: { "A=B": "c" } },
      { env: { A: "x".repeat(200_000) } },
    ];
    for (const fault of faults)
      await expect(exec({ command: ["true"], ...fault })).rejects.toMatchObject({ code: Code.InvalidArgument });
    expect((await exec({ command: ["true"], workingDir: "/none" })).exitCode).not.toBe(0);
  });

  it("runs a command as another user of the sandbox, including in the background and on a terminal", async () => {
    const script = "id -u; id -g; touch /tmp/$(id -u) && cat mine >/dev/null && ls /work";
    if (process.getuid?.() !== 0) {
      await expect(exec({ command: ["id"], user: "1000" })).rejects.toMatchObject({ code: Code.Unimplemented });
      return;
    }
    expect((await exec({ command: ["sh", "-c", script], user: "1000:7" })).stdout).toBe("1000\n7\nmine\n");
    expect((await exec({ command: ["sh", "-c", script], user: "nobody" })).stdout).toBe("65534\n65534\nmine\n");
    const terminal = { columns: 80, rows: 24 };
    expect((await exec({ command: ["id", "-u"], user: "1000", terminal })).stdout).toBe("1000\r\n");
    const key = { sandboxName: "one", namespace };
    const { processId } = await local.processes.start({ ...key, command: ["id", "-u"], user: "12" });
    let background = "";
    for await (const { output } of local.processes.output({ ...key, processId }))
      if (output.case === "stdout") background += Buffer.from(output.value).toString();
    expect(background).toBe("12\n");
    for (const user of ["no one", "-1", "1:", "missing", "4294967295"])
      await expect(exec({ command: ["id"], user }), user).rejects.toMatchObject({ code: Code.InvalidArgument });
  });

  it("grants no capabilities and no new privileges", async () => {
    const { stdout } = await exec({ command: ["sh", "-c", "grep -E '^(Cap(Prm|Eff|Bnd)|NoNewPrivs)' /proc/self/status"] });
    expect(stdout.replace(/\s+/g, " ")).toBe(
      "CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 ",
    );
  });

  it("allocates a terminal of the requested size", async () => {
    const terminal = { columns: 101, rows: 31 };
    const done = await exec(
      { command: ["sh", "-c", "test -t 0 && stty size; read line; echo got $line; exit 3"], terminal },
      [input("word\r")],
      "31 101",
    );
    expect(done.stdout.replaceAll("\r", "")).toBe("31 101\nword\ngot word\n");
    expect(done.exitCode).toBe(3);
  });

  it("resizes the terminal while the command runs", async () => {
    const terminal = { columns: 80, rows: 24 };
    const script = "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 600 & wait $!; done";
    const done = await exec(
      { command: ["bash", "-c", script], terminal },
      [{ case: "resize", value: { columns: 132, rows: 43 } }],
      "ready",
    );
    expect(done.stdout.replaceAll("\r", "")).toBe("ready\n43 132\n");
    expect(done.exitCode).toBe(4);
  });

  it.each([
    ["with", { columns: 80, rows: 24 }],
    ["without", undefined],
  ] as const)("ends, with what it started, when the caller goes away (%s a terminal)", async (_, terminal) => {
    // The program ends once the other end of the pipe is closed.
    await local.sandbox("watcher", { command: ["sh", "-c", "mkfifo gate && exec cat gate"] });
    await local.phase("watcher", "Running");
    const control = new AbortController();
    const script = "exec 3>gate; sleep 600 & echo up; wait";
    const start = { sandboxName: "watcher", command: ["sh", "-c", script], ...(terminal && { terminal }) };
    const caller = exec(start, [], "up", control);
    const waiting = expect(caller).rejects.toMatchObject({ code: Code.Canceled });
    await heard;
    control.abort();
    await waiting;
    await local.phase("watcher", "Succeeded");
  });

  it("runs an interactive shell on a terminal and returns its exit code", async () => {
    const terminal = { columns: 80, rows: 24 };
    const done = await exec({ command: ["bash", "--norc", "-i"], terminal }, [input("echo in $((20+3)); exit 9\r")], "#");
    expect(done.stdout).toMatch(/^in 23\r$/m);
    expect(done.stdout).not.toMatch(/job control|tty/);
    expect(done.exitCode).toBe(9);
  });

  it("is killed with the sandbox, and rejected if the sandbox does not exist or run", async () => {
    const running = exec({ command: ["sh", "-c", "echo up; sleep 600"] }, [], "up");
    await heard;
    await local.client.delete(Sandbox, { namespace, name: "one" });
    expect((await running).exitCode).toBe(137);
    await local.phase("one", undefined);
    await expect(exec({ command: ["true"] })).rejects.toMatchObject({ code: Code.NotFound });
    await local.sandbox("done", { command: ["true"] });
    await local.phase("done", "Succeeded");
    await expect(exec({ sandboxName: "done", command: ["true"] })).rejects.toMatchObject({ code: Code.FailedPrecondition });
    await expect(exec({ sandboxName: "done", command: [] })).rejects.toMatchObject({ code: Code.InvalidArgument });
  });

  it("is denied to a caller without the agent's key", async () => {
    const { status } = await local.client.get(Pod, { namespace, name: "pool-agent-0" });
    const { metadata } = await local.client.get(Sandbox, { namespace, name: "one" });
    const stranger = createAgentClient({ url: `https://${status?.podIP}:5758`, token: "guessed" }, systemClock);
    const attempt = stranger.exec(metadata.uid ?? "", ["true"], undefined, AbortSignal.timeout(30_000));
    await expect(attempt).rejects.toThrow();
  });
});
