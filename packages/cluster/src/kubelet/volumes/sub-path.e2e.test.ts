import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PodSpec } from "@keelson/api-machinery/kinds";
import { Pod, RuntimeClass } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Kubelet, startKubelet } from "../kubelet.ts";
import { subPathDirectory, SubPathMounts } from "./sub-path-mounts.ts";
import { type AddressBlock, reserveAddressBlock } from "../../address-block.ts";

const namespace = "default";
/** Renames a directory and a link to `/` to `sub` in turn. */
const swap =
  "cd $0; mkdir -p inside; touch inside/marker; ln -sfn / link; " +
  "while :; do mv -T inside sub; mv -T sub inside; mv -T link sub; mv -T sub link; done 2>/dev/null";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "keelson-subpath-"));
});
// A command of the loop may outlive it for a moment.
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }));

const mountsBelow = (directory: string): readonly string[] =>
  readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .filter((line) => line.includes(directory));

describe.runIf(process.getuid?.() === 0)("subpaths of volumes", () => {
  test("never lead out of the volume, whenever links are replaced", async () => {
    const volume = join(folder, "volume");
    mkdirSync(volume);
    const mounts = new SubPathMounts(join(folder, "mounts"));
    const owner = { podUid: "uid", container: "main", attempt: 0 };
    const swapper = spawn("/bin/sh", ["-c", swap, volume], { stdio: "ignore" });
    try {
      let bound = 0;
      for (let round = 0; round < 150; round++) {
        const target = await mounts.bind(owner, 0, volume, "sub").catch(() => undefined);
        if (target === undefined) continue;
        bound += 1;
        expect(readdirSync(target).filter((name) => name !== "marker")).toEqual([]);
      }
      expect(bound).toBeGreaterThan(0);
    } finally {
      swapper.kill("SIGKILL");
      await mounts.releasePod("uid");
    }
    expect(mountsBelow(folder)).toEqual([]);
  });

  test("are unmounted without deleting what they contain", async () => {
    const volume = join(folder, "volume");
    mkdirSync(join(volume, "data"), { recursive: true });
    writeFileSync(join(volume, "data", "kept"), "");
    const mounts = new SubPathMounts(join(folder, "mounts"));
    const target = await mounts.bind({ podUid: "uid", container: "main", attempt: 0 }, 0, volume, "data");
    expect(existsSync(join(target, "kept"))).toBe(true);
    await mounts.releaseOthers(() => false);
    expect(readdirSync(join(folder, "mounts"))).toEqual([]);
    expect(existsSync(join(volume, "data", "kept"))).toBe(true);
  });

  test("are replaced and unmounted below a path with spaces and links", async () => {
    const volume = join(folder, "volume");
    mkdirSync(join(volume, "data"), { recursive: true });
    mkdirSync(join(folder, "real directory"));
    symlinkSync("real directory", join(folder, "link"));
    const mounts = new SubPathMounts(join(folder, "link", "mounts"));
    const owner = { podUid: "uid", container: "main", attempt: 0 };
    await mounts.bind(owner, 0, volume, "data");
    await mounts.bind(owner, 0, volume, "data");
    expect(mountsBelow(folder)).toHaveLength(1);
    await mounts.releasePod("uid");
    expect(mountsBelow(folder)).toEqual([]);
    expect(readdirSync(join(folder, "real directory", "mounts"))).toEqual([]);
  });

  test("may be links within the volume, and missing ones are created", async () => {
    const volume = join(folder, "volume");
    mkdirSync(join(volume, "real"), { recursive: true });
    symlinkSync("real", join(volume, "link"));
    const mounts = new SubPathMounts(join(folder, "mounts"));
    const owner = { podUid: "uid", container: "main", attempt: 0 };
    writeFileSync(join(await mounts.bind(owner, 0, volume, "link"), "a"), "");
    writeFileSync(join(await mounts.bind(owner, 1, volume, "new/deep"), "b"), "");
    await mounts.releasePod("uid");
    expect(existsSync(join(volume, "real", "a")) && existsSync(join(volume, "new", "deep", "b"))).toBe(true);
  });
});

describe.runIf(process.getuid?.() === 0).each(["process", "bubblewrap"])("with runtime %s", (runtimeClassName) => {
  let environment: TestEnvironment;
  let client: Client;
  let kubelet: Kubelet;
  let addresses: AddressBlock;

  beforeAll(async () => {
    addresses = await reserveAddressBlock(import.meta.filename);
  });
  afterAll(() => addresses.release());
  beforeEach(async () => {
    environment = await startTestEnvironment();
    client = createClient({ transport: environment.transport(), fieldManager: "kubelet" });
    await client.create(RuntimeClass, { metadata: { name: runtimeClassName }, handler: runtimeClassName });
    const common = { clock: systemClock, random: Math.random, log: silentLogger };
    kubelet = await startKubelet({ client, dataDir: folder, nodeName: "here", podNetwork: addresses.podNetwork, ...common });
  });
  afterEach(async () => {
    await client.delete(Pod, { namespace, name: "p" }, { gracePeriodSeconds: 0 });
    await expect.poll(() => readdirSync(join(folder, "pods")), { timeout: 20_000 }).toEqual([]);
    expect(mountsBelow(subPathDirectory(folder))).toEqual([]);
    await kubelet.stop();
    await environment.stop();
  });

  const create = (spec: Partial<PodSpec> & Pick<PodSpec, "containers">): Promise<unknown> =>
    client.create(Pod, {
      metadata: { namespace, name: "p" },
      spec: {
        nodeName: "here",
        runtimeClassName,
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 0,
        volumes: [{ name: "v", emptyDir: {} }],
        ...spec,
      },
    });
  const container = (name: string, script: string, mount: object) => ({
    name,
    image: "none",
    command: ["/bin/sh", "-c", script, "/v"],
    volumeMounts: [{ name: "v", mountPath: "/v", ...mount }],
  });
  const status = async () => (await client.get(Pod, { namespace, name: "p" })).status;

  test("a link out of the volume is rejected", async () => {
    await create({
      initContainers: [container("first", "ln -s / /v/out", {})],
      containers: [container("main", "ls /v/etc; sleep 600", { subPath: "out" })],
    });
    const waiting = async (): Promise<unknown> => (await status())?.containerStatuses?.[0]?.state?.waiting;
    await expect.poll(waiting, { timeout: 20_000 }).toMatchObject({
      reason: "CreateContainerConfigError",
      message: expect.stringContaining('subPath "out" must stay within the volume'),
    });
  });

  test("a Pod that replaces links while it mounts them never leaves its volume", async () => {
    const script = "if [ -e /v/etc ]; then echo ESCAPED; else echo inside; fi; exit 1";
    const names = ["a", "b", "c", "d"];
    await create({
      initContainers: [{ ...container("swapper", swap, {}), restartPolicy: "Always" }],
      containers: names.map((name) => container(name, script, { subPath: "sub" })),
    });
    const attempts = async (): Promise<number> =>
      (await status())?.containerStatuses?.reduce((sum, { restartCount }) => sum + restartCount, 0) ?? 0;
    const logs = (): string =>
      names
        .flatMap((name) => {
          const handle = kubelet.container(namespace, "p", name);
          return [handle?.program, handle?.previous];
        })
        .map((program) =>
          program === undefined || !existsSync(program.logs.stdout) ? "" : readFileSync(program.logs.stdout, "utf8"),
        )
        .join("");
    await expect.poll(attempts, { timeout: 60_000 }).toBeGreaterThan(3);
    // A mount fails if the link is replaced at the wrong moment, so a busy machine needs more attempts.
    await expect.poll(logs, { timeout: 60_000 }).toMatch(/inside|ESCAPED/);
    expect(logs()).not.toContain("ESCAPED");
  });
});
