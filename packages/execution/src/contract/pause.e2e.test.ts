import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createBubblewrapDriver } from "../bubblewrap/bubblewrap-driver.ts";
import { discoverCgroups, removeEmptyParent } from "../cgroup/cgroup-hierarchies.ts";
import { createContainerdDriver } from "../containerd/containerd-driver.ts";
import { createProcessDriver } from "../process/process-driver.ts";
import { type LocalContainerd, startLocalContainerd } from "../testing/local-containerd.ts";
import { isError } from "./setup.ts";
import { pauseRules } from "./pause.ts";

const cgroupParent = `/keelson-pause-${process.pid}`;
/** Only a machine on which we may create cgroups of version 2 can pause a process. */
const hasFreezer = discoverCgroups(cgroupParent).some(({ version }) => version === 2);
removeEmptyParent(cgroupParent);

let home: string;
let base: string;
let containerd: LocalContainerd | undefined;

beforeAll(async () => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "ctrd-")));
  if (process.getuid?.() === 0) containerd = await startLocalContainerd(home);
});

afterAll(async () => {
  await containerd?.stop();
  rmSync(home, { recursive: true, force: true });
  removeEmptyParent(cgroupParent);
});

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-pause-")));
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

const options = () => ({ dir: join(base, "programs"), clock: systemClock, random: Math.random });
const rules = pauseRules.map((rule) => [rule.title, rule] as const);

describe.runIf(hasFreezer).each([
  ["process", () => createProcessDriver({ ...options(), cgroupParent })],
  ["bubblewrap", () => createBubblewrapDriver({ ...options(), cgroupParent })],
] as const)("the %s driver", (_, open) => {
  test.each(rules)("%s", async (_title, rule) => {
    await expect(rule.run({ dir: join(base, "programs"), open })).resolves.toBeUndefined();
  });
});

describe.runIf(process.getuid?.() === 0)("the containerd driver", () => {
  test.each(rules)("%s", async (_title, rule) => {
    const open = () => createContainerdDriver({ ...options(), ...(containerd && { socket: containerd.socket }) });
    await expect(rule.run({ dir: join(base, "programs"), open })).resolves.toBeUndefined();
  });
});

test("a program without a cgroup cannot be paused", async () => {
  const driver = await createProcessDriver({ ...options(), cgroupParent: false });
  const program = await driver.start({ id: "a", command: ["sleep", "600"] });
  await expect(program.pause()).rejects.toSatisfy(isError("Unsupported"));
  expect(program.isPaused).toBe(false);
  await program.stop({ graceMs: 0 });
  await driver.close();
});
