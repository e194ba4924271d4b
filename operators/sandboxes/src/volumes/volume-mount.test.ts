import { describe, expect, it } from "vitest";
import { isExclusive, volumeMountsProblem, volumesProblem } from "./volume-mount.ts";

const at = (mountPath: unknown, name: unknown = "data") => volumesProblem([{ name, mountPath }]);

describe("the volumes of a sandbox", () => {
  it.each(["/data", "/mnt/x", "/var/lib/app", "/home/user/.cache", "/.hidden", "/a/..b", "/worker", "/usrdata"])(
    "can be mounted at %s",
    (path) => expect(at(path)).toBeUndefined(),
  );

  it.each([
    ...["/", "", "data", "/data/", "//data", "/data//x", "/data/../etc", "/data/..", "/./data", "/a b", "/a\n/b", "/a\0", 7],
    ...[
      "/work",
      "/work/x",
      "/tmp",
      "/proc/self",
      "/dev/shm",
      "/sys",
      "/etc/passwd",
      "/usr/lib",
      "/lib64",
      "/run",
      "/var/tmp",
      "/var/run/x",
    ],
    `/${"a".repeat(255)}`,
  ])("cannot be mounted at %j", (path) => expect(at(path)).toContain("volumes[0].mountPath: "));

  it.each(["", "../data", "A", "a/b", ".", 7])("cannot have the name %j", (name) =>
    expect(at("/data", name)).toContain("volumes[0].name: "),
  );

  it("cannot be mounted twice, nor over one another", () => {
    const data = { name: "data", mountPath: "/data" };
    expect(volumesProblem([data, { name: "data", mountPath: "/other" }])).toBe("volumes[1].name: data is listed twice");
    for (const mountPath of ["/data", "/data/x"])
      expect(volumesProblem([data, { name: "other", mountPath }])).toBe(`volumes[1].mountPath: ${mountPath} overlaps /data`);
    expect(volumesProblem([data, { name: "other", mountPath: "/data2" }])).toBeUndefined();
  });

  it("have ids that cannot leave the directory of the volumes", () => {
    const mount = { name: "data", mountPath: "/data" };
    for (const volumeId of ["../../etc", "", undefined, "00000000-0000-4000-8000-00000000000G"])
      expect(volumeMountsProblem([{ ...mount, volumeId }])).toBe("volumes[0].volumeId: must be a UUID");
    expect(volumeMountsProblem([{ ...mount, volumeId: "00000000-0000-4000-8000-000000000000" }])).toBeUndefined();
  });

  it("are shared only if no sandbox writes", () => {
    expect([
      isExclusive({}, {}),
      isExclusive({ readOnly: true }, {}),
      isExclusive({ readOnly: true }, { readOnly: true }),
    ]).toEqual([true, true, false]);
  });
});
