import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Code } from "@connectrpc/connect";
import { Pod } from "@keelson/api-machinery/kinds";
import { watched } from "@keelson/client/testing";
import { findRunsc } from "@keelson/execution";
import { type LocalContainerd, createBusyboxImage, freePort, startLocalContainerd } from "@keelson/execution/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FailurePolicy } from "@keelson/sandbox/protocol";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { type LocalSandboxes, namespace, startLocalSandboxes } from "../testing/local-sandboxes.ts";

let dir: string;
let containerd: LocalContainerd;
let local: LocalSandboxes;

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "sbx-ctrd-")));
  // As /run: a sandbox's root, an unprivileged user of the host, must reach its container's directory.
  chmodSync(dir, 0o711);
  containerd = await startLocalContainerd(join(dir, "containerd"));
  await createBusyboxImage(join(dir, "busybox.tar"));
  local = await startLocalSandboxes({
    "sandbox-driver": "containerd",
    "sandbox-containerd-socket": containerd.socket,
    "sandbox-image": `busybox=${join(dir, "busybox.tar")}`,
  });
  await local.pool({ poolMin: 1, poolMax: 1 });
});

afterEach(async () => {
  await local.stop();
  await containerd.stop();
  rmSync(dir, { recursive: true, force: true });
});

const containers = (): readonly string[] =>
  execFileSync("ctr", ["--address", containerd.socket, "--namespace", "keelson", "containers", "list", "--quiet"], {
    encoding: "utf8",
  })
    .split("\n")
    .filter((line) => line !== "");

/** What a command in a sandbox wrote, and its exit code. */
async function exec(
  sandboxName: string,
  command: string[],
  user = "",
): Promise<{ stdout: string; exitCode: number | undefined }> {
  let stdout = "";
  let exitCode: number | undefined;
  async function* requests() {
    yield { request: { case: "start" as const, value: { sandboxName, command, user } } };
    yield { request: { case: "closeStdin" as const, value: true } };
  }
  for await (const { response } of local.streams.exec(requests())) {
    if (response.case === "stdout") stdout += Buffer.from(response.value).toString();
    else if (response.case === "exitCode") exitCode = response.value;
  }
  return { stdout, exitCode };
}

/** What a server sends. */
function request(host: string, port: number): Promise<string> {
  return text(connect(port, host)).catch(() => "");
}

async function logs(sandboxName: string): Promise<string> {
  let output = "";
  for await (const { data } of local.streams.logs({ sandboxName, follow: true })) output += Buffer.from(data).toString();
  return output;
}

describe("agents with containerd", () => {
  it("run an image's program with its environment, directories, logs and exit code, and leave nothing behind", async () => {
    const script = "echo $FROM_IMAGE $OWN; cat /etc/motd; exit 5";
    const envs = { OWN: "own" };
    await local.fastPath.createSandbox({ name: "one", image: "busybox", poolRef: "pool", command: ["sh", "-c", script], envs });
    const ended = await local.phase("one", "Failed");
    expect(ended?.status?.exitCode).toBe(5);
    expect(await logs("one")).toBe("yes own\nabove\n");
    await local.fastPath.deleteSandbox({ sandboxName: "one" });
    await local.phase("one", undefined);
    expect(containers()).toEqual([]);
  });

  it("run commands alongside a program of a minimal image", async () => {
    await local.sandbox("one", { image: "busybox", command: ["sh", "-c", "echo here >mine; exec sleep 600"] });
    await local.phase("one", "Running");
    expect(await exec("one", ["sh", "-c", "cat mine; exit 7"])).toEqual({ stdout: "here\n", exitCode: 7 });
    expect(containers()).toHaveLength(1);
    await local.client.delete(Sandbox, { namespace, name: "one" });
    await local.phase("one", undefined);
    expect(containers()).toEqual([]);
    await expect(exec("one", ["true"])).rejects.toMatchObject({ code: Code.NotFound });
  });

  it("adopt their sandboxes after a kill, whatever their policy, and run none twice", async () => {
    const create = (name: string, failurePolicy: FailurePolicy) =>
      local.fastPath.createSandbox({ name, image: "busybox", poolRef: "pool", command: ["sleep", "600"], failurePolicy });
    const ids = await Promise.all([create("manual", FailurePolicy.MANUAL), create("auto", FailurePolicy.AUTO_RECREATE)]);
    await local.phase("manual", "Running");
    await local.phase("auto", "Running");
    const ready = (wanted: boolean) =>
      watched(local.client, SandboxPool, "pool", (pool) => pool?.status?.agents?.[0]?.ready === wanted);
    const lost = ready(false);
    killAgent();
    await lost;
    await ready(true);
    for (const [index, name] of ["manual", "auto"].entries()) {
      const sandbox = await local.phase(name, "Running");
      expect(sandbox?.status?.sandboxID).toBe(ids[index]?.sandboxId);
      // Only the agent that is there now can do this.
      expect((await exec(name, ["true"])).exitCode).toBe(0);
    }
    expect(containers()).toHaveLength(2);
  });

  // Debian has no runsc that works. The driver's contract is tested with a runtime in its place.
  const runtimes = [findRunsc()].filter((path) => path !== undefined);
  it.each(runtimes)("run sandboxes in gVisor, with commands, users, ports, limits and pause", async () => {
    const containersOfAgent = [{ name: "agent", env: [{ name: "PATH", value: process.env.PATH ?? "" }] }];
    const agentTemplate = { spec: { containers: containersOfAgent } };
    const capacity = { poolMin: 1, poolMax: 1 };
    const pool = { capacity, agentTemplate, runtimeType: "gvisor" } as const;
    await local.client.create(SandboxPool, { metadata: { name: "gvisor", namespace }, spec: pool });
    await watched(local.client, SandboxPool, "gvisor", (each) => each?.status?.readyPods === 1);
    const port = await freePort();
    const listen = `IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => ${port}, Listen => 5, ReuseAddr => 1) or die`;
    const serve = `use IO::Socket; my $s = ${listen}; while (my $c = $s->accept) { print $c "served\\n"; close $c }`;
    const spec = { image: "host", poolRef: "gvisor", exposedPorts: [port], command: ["perl", "-e", serve] };
    await local.fastPath.createSandbox({ name: "one", ...spec });
    await local.phase("one", "Running");
    expect((await exec("one", ["uname", "-r"])).stdout).toMatch(/gvisor/);
    expect((await exec("one", ["sh", "-c", "id -u; exit 7"], "1000")).stdout).toBe("1000\n");
    const { status } = await local.client.get(Pod, { namespace, name: "gvisor-agent-0" });
    await expect.poll(() => request(status?.podIP ?? "", port), { timeout: 60_000 }).toBe("served\n");
    await expect(local.files.stat({ sandboxName: "one", path: "/work" })).rejects.toMatchObject({ code: Code.Unimplemented });
    await local.lifecycle.pause({ sandboxName: "one" });
    await local.phase("one", "Paused");
    await local.lifecycle.resume({ sandboxName: "one" });
    await local.phase("one", "Running");
    expect((await exec("one", ["dd", "if=/dev/zero", "of=/work/big", "bs=1M", "count=600"])).exitCode).not.toBe(0);
    await local.client.delete(Sandbox, { namespace, name: "one" });
    await local.phase("one", undefined);
    expect(containers()).toEqual([]);
  });

  it("stop their sandboxes when their Pod is deleted", async () => {
    await local.sandbox("one", { image: "busybox" });
    await local.phase("one", "Running");
    const { metadata } = await local.client.get(Pod, { namespace, name: "pool-agent-0" });
    await local.client.delete(Pod, { namespace, name: "pool-agent-0" });
    await watched(local.client, Pod, "pool-agent-0", (pod) => pod?.metadata.uid !== metadata.uid);
    expect(containers()).toEqual([]);
    await watched(local.client, Sandbox, "one", (each) => each?.status?.phase === "Lost");
  });
});

/** Kills the one agent that runs. */
function killAgent(): void {
  const pids = readdirSync("/proc").filter((name) => {
    try {
      return (
        /^\d+$/.test(name) &&
        /^[^\0]*node\0.*agent-program\.js/.test(readFileSync(`/proc/${name}/cmdline`, "utf8")) &&
        // Other tests may run agents too.
        readFileSync(`/proc/${name}/environ`, "utf8").includes(containerd.socket)
      );
    } catch {
      return false;
    }
  });
  expect(pids).toHaveLength(1);
  process.kill(Number(pids[0]), "SIGKILL");
}
