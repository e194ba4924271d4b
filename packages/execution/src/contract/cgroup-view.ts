import assert from "node:assert/strict";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { Limits, ProgramSpec } from "../driver.ts";
import { content, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

const limits: Limits = { cpuShares: 123, memoryBytes: 64 << 20 };

/** Prints share and memory limit of the cgroups below /sys/fs/cgroup, in either version. */
const read =
  "for file in cpu/cpu.shares cpu.weight memory/memory.limit_in_bytes memory.max; do cat /sys/fs/cgroup/$file; done 2>/dev/null";
/** Prints what it can write, see of other cgroups and of the path to its own. */
const attack =
  "for file in cpu/cpu.shares cpu.weight memory/memory.limit_in_bytes memory.max cgroup.procs pids/tasks; do " +
  "echo 1000 >/sys/fs/cgroup/$file && echo wrote $file; done 2>/dev/null; " +
  "mkdir /sys/fs/cgroup/x /sys/fs/cgroup/cpu/x 2>/dev/null && echo created; " +
  "ls -R /sys/fs/cgroup | grep keelson; [ -e /sys/fs/cgroup ] && grep -v ':/$' /proc/self/cgroup; grep ' - cgroup' /proc/self/mountinfo | grep -vc ' ro,'";

/** `isolation.hasCgroupView` of drivers that support it, as root, for programs with each of `users`. */
export const cgroupViewRules = (
  users: Readonly<Record<string, Pick<ProgramSpec, "user" | "isolation">>>,
): readonly DriverContractCase[] => [
  ...Object.entries(users).map(([name, { user, isolation }]) =>
    rule(`shows ${name} and commands alongside it its own cgroups, read-only, and no others`, async (driver, { dir }) => {
      const spec = { limits, isolation: { ...isolation, hasCgroupView: true }, ...(user !== undefined && { user }) };
      await driver.start({ ...spec, id: "sibling", command: ["sleep", "600"] });
      const command = shell(`${read}; ${attack}; echo ready >ready; exec sleep 600`);
      const program = await driver.start({ ...spec, id: "a", command });
      await content(join(dir, "a", "work", "ready"));
      const { cpuShares, memoryBytes } = program.limits.applied;
      const output = await content(program.logs.stdout);
      const beside = await program.exec({ command: shell(`${read}; ${attack}; true`) });
      assert.equal((await text(beside.stdout)).trim(), output);
      const [share, memory] = [
        cpuShares === undefined ? "" : "(?:123|20|5)\n",
        memoryBytes === undefined ? "" : `${memoryBytes}\n`,
      ];
      assert.match(output, new RegExp(`^${share}${memory}0$`));
      await program.setLimits({ cpuShares: 456 });
      const after = await program.exec({ command: shell(read) });
      assert.match(await text(after.stdout), cpuShares === undefined ? /^/ : /^(?:456|54|18)\n/);
    }),
  ),
  rule("shows no cgroups to a program that does not request them", async (driver) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"], limits, isolation: {} });
    const session = await program.exec({ command: shell("ls -A /sys/fs/cgroup 2>/dev/null; true") });
    assert.equal(await text(session.stdout), "");
  }),
];
