import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Constraint } from "../api/constraint.ts";
import { definition, groupOf, robotOf } from "../testing/objects.ts";
import { specOf } from "../work/group-copies.ts";
import { type Demand, decidePlacement, type Load, noLoad } from "./placement.ts";
import { parseResourceRequest } from "./resource-request.ts";

const anything: Demand = { selector: {}, constraints: [], cpu: 0, cpuMhz: 0, memoryBytes: 0, diskBytes: 0 };
const labelled = (name: string, labels: Record<string, string>) => robotOf(name, { spec: { labels } });
const place = (demand: Partial<Demand>, robots: Parameters<typeof decidePlacement>[1], loads: Record<string, Load> = {}) => {
  const placement = decidePlacement({ ...anything, ...demand }, robots, (robot) => loads[robot] ?? noLoad);
  return placement.kind === "placed" ? placement.robot.metadata.name : placement.message;
};

describe("decidePlacement", () => {
  it("chooses the robot with the fewest tasks, then the first by name", () => {
    const robots = [robotOf("b"), robotOf("a"), robotOf("c")];
    expect(place({}, robots)).toBe("a");
    expect(place({}, robots, { a: { ...noLoad, tasks: 1 } })).toBe("b");
  });

  it("spreads tasks so that the loads of two robots differ by at most one", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 0, max: 40 }), (robotCount, taskCount) => {
        const robots = Array.from({ length: robotCount }, (_, index) => robotOf(`r-${index}`));
        const counts: Record<string, number> = {};
        for (let index = 0; index < taskCount; index++) {
          const placement = decidePlacement(anything, robots, (robot) => ({ ...noLoad, tasks: counts[robot] ?? 0 }));
          if (placement.kind !== "placed") throw new Error(placement.message);
          const name = placement.robot.metadata.name ?? "";
          counts[name] = (counts[name] ?? 0) + 1;
        }
        const values = robots.map((robot) => counts[robot.metadata.name ?? ""] ?? 0);
        expect(Math.max(...values) - Math.min(...values)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it("prefers the robot that suits the affinities best, then the one with the fewest tasks", () => {
    const robots = [labelled("a", { arm: "old" }), labelled("b", { arm: "new" }), labelled("c", { arm: "new", dock: "1" })];
    const prefers = (rTarget: string, weight: number, lTarget = "${label.arm}") => ({ lTarget, rTarget, weight });
    expect(place({ affinities: [prefers("new", 50)] }, robots, { b: { ...noLoad, tasks: 3 } })).toBe("c");
    expect(
      place({ affinities: [prefers("new", 50)] }, robots, { b: { ...noLoad, tasks: 3 }, c: { ...noLoad, tasks: 4 } }),
    ).toBe("b");
    expect(place({ affinities: [prefers("new", -50)] }, robots, { a: { ...noLoad, tasks: 9 } })).toBe("a");
    expect(place({ affinities: [prefers("new", 20), prefers("1", -80, "${label.dock}")] }, robots)).toBe("b");
    expect(place({ affinities: [prefers("none", 100)] }, robots)).toBe("a");
    // An affinity does not exclude robots. A robot that the task was moved from comes last.
    expect(place({ affinities: [prefers("new", 100)], avoided: "b" }, robots.slice(0, 2))).toBe("a");
  });

  it("requires every label of the selector in spec.labels", () => {
    const robots = [labelled("a", { env: "prod" }), labelled("b", { env: "prod", region: "us" })];
    expect(place({ selector: { env: "prod", region: "us" } }, robots)).toBe("b");
    expect(place({ selector: { constructor: "x" } }, robots)).toBe(
      "0/2 robots fit: 2 not matching robotSelector constructor=x",
    );
  });

  it("counts the robots that each filter rejects", () => {
    const robots = [
      robotOf("a", { status: { phase: "Offline" } }),
      robotOf("b", { status: { phase: "Pending" } }),
      robotOf("c", { deleting: true }),
      labelled("d", { env: "test" }),
    ];
    expect(place({ selector: { env: "prod" } }, robots.slice(3))).toBe("0/1 robots fit: 1 not matching robotSelector env=prod");
    expect(place({}, robots.slice(0, 3))).toBe("0/3 robots fit: 1 being deleted, 1 offline, 1 pending approval");
  });

  it("counts cpu and memory against what the robot's tasks leave free", () => {
    const robots = [
      robotOf("a", { status: { phase: "Online", deviceInfo: { cpu: { logicalCores: 1 }, memory: { total: 1000 } } } }),
    ];
    expect(place({ cpu: 0.1 }, robots, { a: { ...noLoad, tasks: 9, cpu: 0.1 * 9 } })).toBe("a");
    // 0.1 three times is a little more than 0.3, and 1 - 0.3 a little less than 0.7.
    expect(place({ cpu: 0.7 }, robots, { a: { ...noLoad, tasks: 3, cpu: 0.1 + 0.1 + 0.1 + 1e-12 } })).toBe("a");
    expect(place({ cpu: 0.5 }, robots, { a: { ...noLoad, tasks: 1, cpu: 0.6 } })).toBe(
      "0/1 robots fit: 1 short of cpu (requested 500m, available 400m of 1)",
    );
    expect(place({ memoryBytes: 501 }, robots, { a: { ...noLoad, tasks: 1, memoryBytes: 500 } })).toBe(
      "0/1 robots fit: 1 short of memory (requested 501, available 500 of 1000)",
    );
    expect(place({ cpu: 64, memoryBytes: 1e12 }, [robotOf("unknown")])).toBe("unknown");
  });
});

it("counts disk against the file system of the robot's tasks, and the disk of a group for each task", () => {
  const disks = [
    { mountPoint: "/", total: 1000 },
    { mountPoint: "/boot", total: 10 },
  ];
  const robots = [robotOf("a", { status: { phase: "Online", deviceInfo: { disks } } })];
  expect(place({ diskBytes: 500 }, robots, { a: { ...noLoad, tasks: 1, diskBytes: 500 } })).toBe("a");
  expect(place({ diskBytes: 501 }, robots, { a: { ...noLoad, tasks: 1, diskBytes: 500 } })).toBe(
    "0/1 robots fit: 1 short of disk (requested 501, available 500 of 1000)",
  );
  expect(place({ diskBytes: 1e12 }, [robotOf("unknown")])).toBe("unknown");
  const group = groupOf({ ephemeralDisk: { sizeMB: 300 } });
  const resources = (own: object) => specOf(group, { ...definition, ...own }, undefined).resources;
  expect(parseResourceRequest(resources({})).diskBytes).toBe(300 * 1024 * 1024);
  expect(resources({ resources: { cpu: "1", disk: "1Gi" } })).toEqual({ cpu: "1", disk: "1Gi" });
  expect(resources({ resources: { cpu: "1" } })).toEqual({ cpu: "1", disk: 300 });
});

describe("Nomad's units", () => {
  const machine = (name: string, mhz?: number) =>
    robotOf(name, {
      status: {
        phase: "Online",
        deviceInfo: { cpu: { logicalCores: 2, ...(mhz === undefined ? {} : { mhz }) }, memory: { total: 256 * 1024 * 1024 } },
      },
    });

  it("fit the seed's sample, 100 MHz and 128 MB, on a small robot", () => {
    expect(parseResourceRequest({ cpu: 100, memory: 128 })).toEqual({
      cpu: 0,
      cpuMhz: 100,
      memoryBytes: 128 * 1024 * 1024,
      diskBytes: 0,
    });
    expect(parseResourceRequest({ cpu: "100", memory: "128" })).toEqual(parseResourceRequest({ cpu: 100, memory: 128 }));
    expect(place(parseResourceRequest({ cpu: 100, memory: 128 }), [machine("a", 1500)])).toBe("a");
  });

  it("do not apply to quantities with a unit", () => {
    expect(parseResourceRequest({ cpu: "1500m", memory: "64Mi" })).toEqual({
      cpu: 1.5,
      cpuMhz: 0,
      memoryBytes: 64 * 1024 * 1024,
      diskBytes: 0,
    });
  });

  it("count MHz by the robot's clock rate, or 1000 MHz per core if it reports none", () => {
    expect(place(parseResourceRequest({ cpu: 3000 }), [machine("a", 1500)])).toBe("a");
    expect(place(parseResourceRequest({ cpu: 3000 }), [machine("a"), machine("b", 1200)])).toBe(
      "0/2 robots fit: 2 short of cpu (requested 3, available at most 2 of 2)",
    );
  });
});

describe("drivers", () => {
  it("reject a robot that does not have the driver, and accept one that reports none", () => {
    const robots = [robotOf("a", { status: { phase: "Online", drivers: ["exec", "raw_exec"] } }), robotOf("b")];
    expect(place({ driver: "docker" }, robots.slice(0, 1))).toBe("0/1 robots fit: 1 without the driver docker");
    expect(place({ driver: "docker" }, robots)).toBe("b");
    expect(place({ driver: "exec" }, robots)).toBe("a");
  });
});

describe("constraints", () => {
  const robot = robotOf("r", {
    spec: { labels: { tools: "arm, camera", version: "1.4.2" } },
    status: {
      phase: "Online",
      deviceInfo: { platform: { os: "linux", kernelVersion: "6.1.0-13-amd64" }, cpu: { logicalCores: 8 } },
    },
  });
  const holds = (constraint: Constraint): boolean => place({ constraints: [constraint] }, [robot]) === "r";

  it.each([
    ["${attr.kernel.name}", "=", "linux", true],
    ["${attr.kernel.name}", "=", "darwin", false],
    ["${attr.kernel.name}", "!=", "darwin", true],
    ["${attr.cpu.numcores}", ">", "7", true],
    ["${attr.cpu.numcores}", ">=", "10", false],
    ["${attr.cpu.numcores}", "<", "10", true],
    ["${attr.cpu.numcores}", "<=", "8", true],
    ["${label.tools}", "set_contains", "camera,arm", true],
    ["${meta.tools}", "set_contains", "laser", false],
    ["${label.version}", "version", ">= 1.4, < 2", true],
    ["${label.version}", "version", "~> 1.5", false],
    ["${attr.kernel.version}", "version", "> 5.10", true],
    ["${attr.kernel.version}", "regexp", "^6\\.1\\.", true],
    ["${robot.id}-${label.version}", "=", "r-1.4.2", true],
    ["${attr.gpu.model}", "=", "", false],
    ["${attr.gpu.model}", "!=", "x", true],
    ["${label.__proto__}", "=", "", false],
    ["${attr.constructor}", "!=", "x", true],
  ] as const)("%s %s %s: %s", (lTarget, operand, rTarget, expected) => {
    expect(holds({ lTarget, operand, rTarget })).toBe(expected);
    expect(holds({ ltarget: lTarget, operand, rtarget: rTarget })).toBe(expected);
  });

  it("names invalid and overlong regular expressions", () => {
    for (const rTarget of ["(?=a)", "(a)\\1", "[", "a".repeat(257)]) {
      expect(place({ constraints: [{ lTarget: "${robot.id}", operand: "regexp", rTarget }] }, [robot])).toMatch(
        /the regular expression is (invalid: error parsing regexp: |longer than 256 characters)/,
      );
    }
    expect(holds({ lTarget: "${robot.id}", operand: "regexp", rTarget: "^(r|s)$" })).toBe(true);
    expect(holds({ lTarget: "${robot.id}", operand: "regexp", rTarget: "^(r+)+$" })).toBe(true);
    expect(holds({ lTarget: "${robot.id}", operand: "regexp", rTarget: "^[(+*]?r\\+?$" })).toBe(true);
  });
});
