import { CronJob, Job } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import type { Decision } from "../workload/write.ts";
import { formatInZone, parseSchedule } from "./cron-schedule.ts";
import { decideCronJob } from "./cronjob-decision.ts";

const minute = 60_000;
const hour = 60 * minute;

function start(spec: object = {}): World {
  const world = new World();
  const jobTemplate = {
    metadata: { labels: { a: "b" } },
    spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "c" }] } } },
  };
  world.create(CronJob, { metadata: { name: "tick" }, spec: { schedule: "*/10 * * * *", jobTemplate, ...spec } });
  return world;
}
const decide = (world: World) => (): Decision =>
  decideCronJob({ cronJob: world.get(CronJob, "tick"), jobs: world.list(Job) }, world.now);
const settle = (world: World): Decision => world.settle(decide(world));
const names = (world: World): string[] => world.list(Job).map(({ metadata }) => metadata.name ?? "");
const finish = (world: World, name: string, type: "Complete" | "Failed"): void =>
  world.change(Job, name, {
    status: {
      conditions: [{ type, status: "True" }],
      ...(type === "Complete" ? { completionTime: formatTime(world.now) } : {}),
    },
  });
const status = (world: World) => world.get(CronJob, "tick").status;
/** The name of the Job for the current time. */
const due = (world: World): string => `tick-${Math.floor(world.now / (10 * minute)) * 10}`;

describe("a CronJob", () => {
  test("creates a Job at each scheduled time, named by it, and requeues for the next", () => {
    const world = start();
    expect(settle(world).requeueAfterMs).toBe(10 * minute + 100);
    expect(names(world)).toEqual([]);
    world.now += 10 * minute;
    expect(settle(world).requeueAfterMs).toBe(10 * minute + 100);
    expect(world.list(Job)).toMatchObject([
      {
        metadata: {
          name: due(world),
          labels: { a: "b" },
          annotations: { "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T00:10:00Z" },
          ownerReferences: [{ kind: "CronJob", name: "tick", controller: true }],
        },
        spec: { template: { spec: { restartPolicy: "Never" } } },
      },
    ]);
    expect(status(world)).toMatchObject({
      lastScheduleTime: "2026-01-01T00:10:00Z",
      active: [{ kind: "Job", name: due(world) }],
    });
    const first = due(world);
    finish(world, first, "Complete");
    settle(world);
    expect(status(world)).toEqual({ lastScheduleTime: "2026-01-01T00:10:00Z", lastSuccessfulTime: "2026-01-01T00:10:00Z" });
    expect(world.events).toContain(`SawCompletedJob: Saw completed job: ${first}, condition: Complete`);
  });

  test("creates only the Job of the latest time after it missed several, and warns beyond 100", () => {
    const world = start();
    world.now += 24 * hour;
    settle(world);
    expect(names(world)).toEqual([due(world)]);
    expect(world.events.join()).toContain("TooManyMissedTimes");
  });

  test("creates no Job whose starting deadline has passed", () => {
    const world = start({ startingDeadlineSeconds: 30 });
    world.now += 10 * minute + 31_000;
    settle(world);
    expect(names(world)).toEqual([]);
    world.now += 10 * minute - 5_000;
    settle(world);
    expect(names(world)).toEqual([due(world)]);
  });

  test.each([
    ["Allow", 2],
    ["Forbid", 1],
    ["Replace", 1],
  ] as const)("with concurrencyPolicy %s has %d Jobs while the first still runs", (concurrencyPolicy, count) => {
    const world = start({ concurrencyPolicy });
    world.now += 10 * minute;
    settle(world);
    const [first] = names(world);
    world.now += 10 * minute;
    world.perform(decide(world)().writes);
    expect(names(world)).toHaveLength(count);
    expect(names(world).includes(first ?? "")).toBe(concurrencyPolicy !== "Replace");
    if (concurrencyPolicy !== "Forbid") return;
    expect(world.events.at(-1)).toMatch(/^JobAlreadyActive: Not starting job because prior execution is running/);
    finish(world, first ?? "", "Complete");
    settle(world);
    expect(names(world)).toEqual([first, due(world)]);
  });

  test("creates nothing while it is suspended or being deleted, and resumes with the latest time", () => {
    const world = start({ suspend: true });
    world.now += hour;
    expect(settle(world)).toEqual({ writes: [], requeueAfterMs: undefined });
    world.change(CronJob, "tick", { spec: { suspend: false } });
    settle(world);
    expect(names(world)).toEqual([due(world)]);
    world.change(CronJob, "tick", { metadata: { finalizers: ["x/y"] } });
    world.delete(CronJob, "tick");
    world.now += hour;
    settle(world);
    expect(names(world)).toHaveLength(1);
  });

  test("keeps three successful Jobs and one failed one", () => {
    const world = start();
    for (let round = 0; round < 8; round++) {
      world.now += 10 * minute;
      settle(world);
      finish(world, due(world), round % 2 === 0 ? "Complete" : "Failed");
    }
    settle(world);
    expect(names(world)).toHaveLength(4);
  });

  test("reports an invalid schedule", () => {
    const world = start({ schedule: "nonsense" });
    expect(decide(world)().writes).toMatchObject([{ kind: "event", type: "Warning", reason: "UnparseableSchedule" }]);
  });
});

describe("schedules", () => {
  const at = (text: string): number => Date.parse(text);

  test.each([
    ["0 9 * * 1-5", undefined, "2026-01-02T10:00:00Z", "2026-01-05T09:00:00Z"],
    ["@daily", "America/New_York", "2026-01-02T10:00:00Z", "2026-01-03T05:00:00Z"],
    ["0 0 13 * 5", undefined, "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"],
    ["0 12 ? JAN SUN", undefined, "2026-01-01T00:00:00Z", "2026-01-04T12:00:00Z"],
    ["@every 90m", undefined, "2026-01-01T00:10:00Z", "2026-01-01T01:30:00Z"],
  ])("%s in zone %s is due after %s at %s", (text, zone, from, next) => {
    const schedule = parseSchedule(text, zone);
    expect(new Date(schedule.next(at(from)) ?? 0).toISOString()).toBe(new Date(at(next)).toISOString());
    expect(schedule.previous(at(next), 1)).toEqual([at(next)]);
  });

  test.each(["* * * *", "@every 1x", "61 * * * *"])("%s is rejected", (text) => {
    expect(() => parseSchedule(text)).toThrow();
  });

  test("times are formatted in their zone", () => {
    expect(formatInZone(at("2026-07-01T12:00:00Z"), "Europe/Berlin")).toBe("2026-07-01T14:00:00+02:00");
    expect(formatInZone(at("2026-07-01T12:00:00Z"), undefined)).toBe("2026-07-01T12:00:00Z");
  });
});
