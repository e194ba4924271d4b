import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { Job } from "../../api/job.ts";
import { after, jobOf, t0 } from "../../testing/objects.ts";
import { decideParent, draftOf, type ParentDecision } from "./parent-decision.ts";

const minuteMs = 60_000;
const periodic = { cron: "*/10 * * * *" };

function parent(fields: Partial<NonNullable<Job["spec"]["periodic"]>> = {}, status?: Job["status"]): DeepReadonly<Job> {
  const job = jobOf({ periodic: { ...periodic, ...fields }, meta: { site: "a" } }, status === undefined ? {} : { status });
  return { ...job, metadata: { ...job.metadata, creationTimestamp: after(-1_000) } };
}
const child = (name: string, state?: "running" | "completed" | "failed", createdMs = 0): DeepReadonly<Job> => {
  const job = jobOf({}, { name, ...(state === undefined ? {} : { status: { state } }) });
  return { ...job, metadata: { ...job.metadata, creationTimestamp: after(createdMs) } };
};
const decide = (job: DeepReadonly<Job>, now: number, children: readonly DeepReadonly<Job>[] = []): ParentDecision =>
  decideParent({ job, children, now });
const nameAt = (ms: number): string => `hello-periodic-${Math.floor((t0 + ms) / 1000)}`;

describe("a periodic Job", () => {
  it("creates a Job for a scheduled time, once, and waits for the next", () => {
    const decision = decide(parent(), t0 + 3_000);
    expect(decision).toMatchObject({
      create: { name: nameAt(0), labels: { "robot.k8s4r.io/parent": "hello" } },
      status: {
        state: "running",
        lastScheduleTime: after(0),
        nextScheduleTime: after(10 * minuteMs),
        activeJobs: [nameAt(0)],
      },
      event: { reason: "RunStarted" },
      requeueAfterMs: 10 * minuteMs - 3_000 + 50,
    });
    expect(decision.create?.spec).not.toHaveProperty("periodic");
    const crashed = decide(parent(), t0 + 3_000, [child(nameAt(0))]);
    expect(crashed.create).toBeUndefined();
    expect(crashed.status?.lastScheduleTime).toBe(after(0));
    expect(decide(parent({}, decision.status), t0 + 9 * minuteMs, [child(nameAt(0))]).create).toBeUndefined();
  });

  it("does not run for times before it was created", () => {
    const job = { ...parent(), metadata: { ...parent().metadata, creationTimestamp: after(1_000) } };
    expect(decide(job, t0 + 3_000).create).toBeUndefined();
  });

  it("makes up for the last of several missed times only", () => {
    const decision = decide(parent({}, { lastScheduleTime: after(0) }), t0 + 35 * minuteMs);
    expect(decision.create?.name).toBe(nameAt(30 * minuteMs));
  });

  it("uses its time zone, across the change to summer time", () => {
    const daily = { cron: "30 4 * * *", timeZone: "Europe/Berlin" };
    const next = (now: number) =>
      decide(parent(daily, { lastScheduleTime: new Date(now).toISOString() }), now).status?.nextScheduleTime;
    expect(next(Date.UTC(2026, 2, 28, 12))).toBe("2026-03-29T02:30:00.000Z");
    expect(next(Date.UTC(2026, 2, 27, 12))).toBe("2026-03-28T03:30:00.000Z");
  });

  it.each([
    ["allow", nameAt(0), []],
    ["forbid", undefined, []],
    ["replace", nameAt(0), ["before"]],
  ] as const)("with overlap %s and a run that has not ended, creates %s and deletes %j", (overlap, created, removed) => {
    const decision = decide(parent({ overlap }), t0 + 1_000, [child("before", "running")]);
    expect(decision.create?.name).toBe(created);
    expect(decision.remove).toEqual(removed);
    expect(decision.status?.lastScheduleTime).toBe(after(0));
    expect(decision.event?.reason).toBe(created === undefined ? "RunSkipped" : "RunStarted");
  });

  it("keeps as many ended runs as historyLimit says, and every active one", () => {
    const runs = [child("c", "completed", 3), child("a", "failed", 1), child("b", "running", 0), child("d", "completed", 4)];
    expect(decide(parent({ historyLimit: 1 }), t0 + 1_000, runs).remove).toEqual(["a", "c"]);
  });

  it.each([
    [{ enabled: false }, "Disabled", /enabled is false/],
    [{ cron: "nonsense" }, "InvalidSchedule", /spec\.periodic: "nonsense" in UTC: /],
    [{ timeZone: "Mars/Base" }, "InvalidSchedule", /Mars\/Base/],
  ])("runs nothing with %j, and says why", (fields, reason, message) => {
    const decision = decide(parent(fields), t0 + 1_000);
    expect(decision.create).toBeUndefined();
    expect(decision.status?.conditions).toMatchObject([
      { type: "Scheduled", status: "False", reason, message: expect.stringMatching(message) },
    ]);
  });
});

it("a parameterized Job runs nothing itself and lists the Jobs that have not ended", () => {
  const job = jobOf({ parameterized: {} });
  const decision = decideParent({ job, children: [child("one", "running"), child("two", "completed")], now: t0 });
  expect(decision).toMatchObject({ remove: [], status: { activeJobs: ["one"], state: "running" } });
  expect(decision.create).toBeUndefined();
  expect(draftOf(job, "x", { meta: { a: "b" } }).spec).toMatchObject({ name: "x", meta: { a: "b" } });
});
