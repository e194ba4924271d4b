import { expect, test } from "vitest";
import { examine, type Machine } from "./requirements.ts";

const machine: Machine = {
  nodeVersion: "24.1.0",
  isRoot: false,
  findProgram: (name) => `/usr/bin/${name}`,
  read: (path) =>
    ({
      "/sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
      "/proc/sys/user/max_user_namespaces": "100\n",
    })[path],
  accepts: () => Promise.resolve(true),
};

const missing = async (changes: Partial<Machine>): Promise<readonly string[]> =>
  (await examine({ ...machine, ...changes })).filter(({ found }) => found === undefined).map(({ name }) => name);

test("a complete machine misses nothing", async () => {
  expect(await missing({})).toEqual([]);
});

test.each<[string, Partial<Machine>, readonly string[]]>([
  ["an old Node.js", { nodeVersion: "20.18.1" }, ["Node.js"]],
  ["no bubblewrap", { findProgram: (name) => (name === "bwrap" ? undefined : name) }, ["bwrap"]],
  ["no containerd", { accepts: () => Promise.resolve(false) }, ["containerd"]],
  ["no cgroup v2 and no user namespaces", { read: () => undefined }, ["user namespaces", "cgroup v2"]],
  ["no user namespaces as root", { isRoot: true, read: () => undefined }, ["cgroup v2"]],
  [
    "restricted user namespaces",
    { read: (path) => (path.includes("apparmor") ? "1\n" : machine.read(path)) },
    ["user namespaces"],
  ],
])("%s is reported", async (_, changes, names) => {
  expect(await missing(changes)).toEqual(names);
});

test("each missing requirement has a remedy", async () => {
  const [bwrap] = (await examine({ ...machine, findProgram: () => undefined })).filter(({ name }) => name === "bwrap");
  expect(bwrap).toEqual({
    name: "bwrap",
    neededBy: "sandboxes, and Pods with runtimeClassName bubblewrap",
    fix: "apt-get install bubblewrap",
  });
});
