import { expect, test } from "vitest";
import { actionOf } from "../process/signal-disposition.ts";
import { ociSpec } from "./oci-spec.ts";
import { parseStartError } from "./start-error.ts";

test.each([
  ['exec: "nope": executable file not found in $PATH: unknown', { message: "nope: not found in PATH", exitCode: 127 }],
  [
    'OCI runtime create failed: runc create failed: unable to start container process: exec: "/x/y": permission denied: unknown',
    { message: "/x/y: permission denied", exitCode: 126 },
  ],
  ["exec /base/outer: no such file or directory", { message: "outer: not found (/base/outer)", exitCode: 127 }],
  ['x exec: "/a": stat /a: no such file or directory: unknown', { message: "a: not found (/a)", exitCode: 127 }],
])("translates the runtime's error into a shell's: %s", (words, problem) => {
  expect(parseStartError(words)).toEqual(problem);
});

test("ignores messages that are not about executing a program", () => {
  expect(parseStartError("Traceback: something with exec in it")).toBeUndefined();
});

test("treats an unhandled signal as terminating, and a handled or ignored one as not", () => {
  // SIGTERM is 15: bit 14. SIGINT is 2: bit 1.
  const status = "Name:\tsh\nSigIgn:\t0000000000000002\nSigCgt:\t0000000000004000\n";
  expect(actionOf(status, "SIGTERM")).toBe("handle");
  expect(actionOf(status, "SIGINT")).toBe("handle");
  expect(actionOf(status, "SIGHUP")).toBe("end");
  expect(actionOf(status, "SIGWINCH")).toBe("handle");
});

test("writes limits in the OCI format, without swap", () => {
  const {
    linux,
    mounts,
    process: ociProcess,
  } = ociSpec({
    command: ["true"],
    env: {},
    cwd: "/",
    user: { uid: 0, gid: 0 },
    limits: { cpuMillis: 250, cpuShares: 512, memoryBytes: 1 << 20, pids: 7 },
    oomScoreAdjustment: 500,
    hasCgroupView: true,
    cgroupsPath: "/keelson/x",
    binds: [],
    network: "none",
    isRootWritable: false,
    hasTerminal: false,
    capabilities: [],
  }) as { linux: { resources: unknown; namespaces: unknown }; mounts: unknown; process: unknown };
  expect(linux.resources).toMatchObject({
    cpu: { quota: 25_000, period: 100_000, shares: 512 },
    memory: { limit: 1 << 20, swap: 1 << 20 },
    pids: { limit: 7 },
  });
  expect(linux.namespaces).toContainEqual({ type: "network" });
  expect(linux.namespaces).toContainEqual({ type: "cgroup" });
  expect(mounts).toContainEqual(
    expect.objectContaining({ destination: "/sys/fs/cgroup", options: expect.arrayContaining(["ro"]) }),
  );
  expect(ociProcess).toMatchObject({ oomScoreAdj: 500 });
});
