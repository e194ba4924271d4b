import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { createBusyboxImage, freePort } from "@keelson/execution/testing";
import { type Driver, openUnpackedImages, type Program } from "@keelson/execution";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openAgentDriver } from "../agent/run-agent.ts";
import type { AgentSandbox } from "../protocol/protocol.ts";
import { localImages } from "./image-store.ts";
import { SandboxManager } from "./sandbox-manager.ts";

/* The boundary of a sandbox as an agent starts it by default. Attacks on the driver itself: packages/execution, boundary.e2e.test.ts. */

const isRoot = process.getuid?.() === 0;
let dir: string;
let driver: Driver;
let manager: SandboxManager;
const [one, other] = ["1".repeat(32), "2".repeat(32)];

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "sandbox-boundary-")));
  chmodSync(dir, 0o700);
  await open();
});

afterEach(async () => {
  await manager.shutDown();
  await Promise.all(driver.list().map((program) => program.remove()));
  await driver.close();
  rmSync(dir, { recursive: true, force: true });
});

async function open(): Promise<void> {
  driver = await openAgentDriver({ driver: "bubblewrap" }, join(dir, "agent"), systemClock);
  const images = await openUnpackedImages(join(dir, "images"));
  await createBusyboxImage(join(dir, "busybox.tar"));
  await images.import(join(dir, "busybox.tar"), { name: "busybox" });
  manager = new SandboxManager({
    agentId: "agent",
    nodeName: "node",
    capacity: 4,
    driver,
    images: localImages(images),
    address: "127.0.0.1",
    clock: systemClock,
    log: silentLogger,
    expiryFile: join(dir, "expiries.json"),
  });
}

async function create(sandboxId: string, change: Partial<AgentSandbox>): Promise<Program> {
  const claim = { claimUid: "", claimName: "one", namespace: "default" };
  expect(await manager.create({ sandboxId, ...claim, image: "host", ...change })).toMatchObject({ success: true });
  const program = driver.get(sandboxId);
  if (program === undefined) throw new Error("the sandbox does not exist");
  return program;
}

/** What a server at a port of the host sends; empty if it refuses or closes the connection. */
async function fetchFrom(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  return text(socket).catch(() => "");
}

describe.runIf(isRoot)("a sandbox", () => {
  it("is limited in CPU, memory, processes and disk by default", async () => {
    const program = await create(one, { command: ["sleep", "600"] });
    expect(program.spec.limits).toEqual({ cpuMillis: 1000, memoryBytes: 512 << 20, pids: 512, diskBytes: 512 << 20 });
    expect(program.limits.applied.diskBytes).toBe(512 << 20);
  });

  it("runs an image without the host's user, network or files", async () => {
    const script = "id -u; cat /etc/motd; ls /; echo x >/work/own && echo wrote; touch /etc/x 2>/dev/null || echo read-only";
    const program = await create(one, { image: "busybox", command: ["sh", "-c", script] });
    await program.exited();
    const output = readFileSync(program.logs.stdout, "utf8");
    expect(output).toMatch(/^0\nabove\n[^]*wrote\nread-only\n$/);
    expect(output).not.toMatch(/^(root|home|mnt)$/m);
  });

  it("is reachable on its exposed port, which it serves on its own loopback, and on no other", async () => {
    const [exposed, hidden] = [await freePort(), await freePort()];
    const serve = (port: number, answer: string): string =>
      `perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => ${port}, Listen => 5) or die; $| = 1; print "up\\n"; while (my $c = $s->accept) { print $c "${answer}"; close $c }'`;
    const program = await create(one, {
      command: ["sh", "-c", `${serve(exposed, "exposed")} & ${serve(hidden, "hidden")} & wait`],
      ports: [exposed],
    });
    while (readFileSync(program.logs.stdout, "utf8").split("up").length < 3)
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await fetchFrom(exposed)).toBe("exposed");
    expect(await fetchFrom(exposed)).toBe("exposed");
    expect(await fetchFrom(hidden)).toBe("");
    // Neither does another sandbox reach it.
    const attacker = await create(other, { command: ["bash", "-c", `cat </dev/tcp/127.0.0.1/${exposed} || echo refused`] });
    await attacker.exited();
    expect(readFileSync(attacker.logs.stdout, "utf8")).toBe("refused\n");
  });

  it("cannot occupy a port of the host, so that it can impersonate no agent", async () => {
    const port = await freePort();
    const squat = `perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => ${port}, Listen => 5) or die; $| = 1; print "up\\n"; $s->accept'`;
    const program = await create(one, { command: ["sh", "-c", squat] });
    while (!readFileSync(program.logs.stdout, "utf8").includes("up")) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await fetchFrom(port)).toBe("");
    const agent = createServer().listen(port, "127.0.0.1");
    await once(agent, "listening");
    await new Promise((resolve) => agent.close(resolve));
  });

  it("keeps its exposed ports when its agent is replaced", async () => {
    const port = await freePort();
    const serve = `perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => ${port}, Listen => 5) or die; $| = 1; print "up\\n"; while (my $c = $s->accept) { print $c "served"; close $c }'`;
    const program = await create(one, { command: ["sh", "-c", serve], ports: [port] });
    while (!readFileSync(program.logs.stdout, "utf8").includes("up")) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await fetchFrom(port)).toBe("served");
    manager.detach();
    await driver.close();
    await open();
    let answer = "";
    while (answer === "") answer = await fetchFrom(port);
    expect(answer).toBe("served");
  });
});
