import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { systemClock } from "@keelson/api-machinery/time";
import { expect, onTestFinished, test } from "vitest";
import { defaultAgentDir } from "./agent/agent-settings.ts";
import { type AgentClient, createAgentClient } from "./fleet/agent-client.ts";

/*
 * The agent in its image, in a privileged container as of a cluster's runtime. The node of `keelson up` runs no privileged containers, so
 * this starts one directly. Every program that the agent executes must be in the image.
 */
const root = fileURLToPath(new URL("../../..", import.meta.url));
const token = "0123456789abcdef".repeat(4);
const sandboxId = "11111111-2222-4333-8444-555555555555";
const volumeId = "21111111-2222-4333-8444-555555555555";

/** Capabilities of `privileged: true` that the agent uses. It grows mounted volumes only with SYS_RESOURCE, which not every machine has. */
const capabilities = [
  ...["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_ADMIN"],
  ...["NET_BIND_SERVICE", "NET_RAW", "SETGID", "SETPCAP", "SETUID", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"],
].map((name) => `CAP_${name}`);

/** The parts of an OCI runtime configuration that a privileged container changes. */
interface RuntimeConfig {
  readonly process: object;
  readonly linux: { readonly namespaces: readonly { readonly type: string }[] };
  readonly mounts: readonly { readonly destination: string; readonly options?: readonly string[] }[];
}

function privileged(config: RuntimeConfig, data: string): object {
  const bind = (destination: string, source: string): object => ({
    destination,
    source,
    type: "bind",
    options: ["rbind", "rw"],
  });
  const isDevice = ({ destination }: { readonly destination: string }): boolean => destination.startsWith("/dev");
  return {
    ...config,
    root: { path: "rootfs", readonly: false },
    process: {
      ...config.process,
      terminal: false,
      noNewPrivileges: false,
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
      args: ["keelson", "sandbox", "agent", "--agent-port", "0"],
      env: [`AGENT_TOKEN=${token}`, "PATH=/usr/local/bin:/usr/bin:/bin", "POD_NAME=agent", "NODE_NAME=node"],
    },
    linux: {
      namespaces: config.linux.namespaces.filter(({ type }) => type !== "network"),
      resources: { devices: [{ allow: true, access: "rwm" }] },
    },
    mounts: [
      ...config.mounts
        .filter((mount) => !isDevice(mount))
        .map((mount) => ({ ...mount, options: mount.options?.filter((option) => option !== "ro") })),
      bind("/dev", "/dev"),
      bind(defaultAgentDir, data),
    ],
  };
}

/** Starts the image's program in a directory, which is deleted at the end of the test. */
async function startAgent(): Promise<AgentClient> {
  const bundle = realpathSync(mkdtempSync(join(tmpdir(), "agent-image-")));
  onTestFinished(() => rmSync(bundle, { recursive: true }));
  const [rootfs, data] = [join(bundle, "rootfs"), join(bundle, "data")];
  mkdirSync(data);
  const build = [join(root, "scripts/image.mjs"), "--only", "sandbox-agent", "--skip-build", "--folder", rootfs];
  execFileSync(process.execPath, build);
  execFileSync("runc", ["spec", "--bundle", bundle]);
  const file = join(bundle, "config.json");
  writeFileSync(file, JSON.stringify(privileged(JSON.parse(readFileSync(file, "utf8")) as RuntimeConfig, data)));
  const container = spawn("runc", ["run", "--bundle", bundle, basename(bundle)], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(container, "exit");
  onTestFinished(async () => {
    container.kill("SIGTERM");
    await exited;
  });
  for await (const line of createInterface({ input: container.stdout })) {
    const url = /^agent on (https:\S+)/.exec(line)?.[1];
    if (url !== undefined) return createAgentClient({ url, token }, systemClock);
  }
  throw new Error("the agent exited before it was ready");
}

test("the image has every program for sandboxes with a volume, a network, files and commands", async () => {
  const agent = await startAgent();
  await agent.changeVolume({ kind: "create", volumeId, sizeBytes: 16 << 20 });
  await agent.changeVolume({ kind: "resize", volumeId, sizeBytes: 32 << 20 });
  const answer = await agent.create({
    ...{ sandboxId, claimUid: "uid", claimName: "box", namespace: "default", image: "host", command: ["/bin/sleep", "600"] },
    ...{ network: "internet", volumes: [{ name: "data", volumeId, mountPath: "/data" }] },
  });
  expect(answer).toMatchObject({ success: true });
  const script = "echo 1 >/data/file; cat /proc/net/dev";
  const { frames } = await agent.exec(sandboxId, ["/bin/sh", "-c", script], undefined, new AbortController().signal);
  let output = "";
  for await (const { data } of frames) output += data.toString();
  expect(output).toContain("eth0:");
  const { entries } = await agent.files(sandboxId, { kind: "list", path: "/data" });
  expect(entries?.map(({ name }) => name)).toEqual(["file"]);
});
