import { describe, expect, it } from "vitest";
import type { GroupRollout, JobRollout } from "../api/update-policy.ts";
import { definition, groupOf, jobOf } from "../testing/objects.ts";
import { changedPaths, isSameRevision, type JobRevision, revisionData } from "./job-revision.ts";
import { decideJobRollout, type JobRolloutObservation } from "./job-rollout.ts";

const specOf = (versions: Record<string, string>, rest: Parameters<typeof jobOf>[0] = {}) =>
  jobOf({
    type: "service",
    taskGroups: Object.entries(versions).map(([name, VERSION]) => ({
      name,
      count: 2,
      tasks: [{ ...definition, env: { VERSION } }],
    })),
    ...rest,
  }).spec;
const revisionsOf = (...specs: readonly ReturnType<typeof specOf>[]): readonly JobRevision[] =>
  specs.reduce<JobRevision[]>(
    (all, spec, index) => [
      ...all,
      { number: index + 1, name: `r${index + 1}`, createdAt: undefined, ...revisionData(spec, index + 1, all) },
    ],
    [],
  );
const group = (name: string, rollout: Partial<GroupRollout> & { revision: number }) =>
  groupOf(
    { groupName: name, revision: rollout.revision },
    { name: `hello-${name}`, status: { rollout: { phase: "completed", ...rollout } } },
  );
const stable: JobRollout = { revision: 1, latestRevision: 1, stableRevision: 1, phase: "completed" };
const [first, second] = [specOf({ a: "1", b: "1" }), specOf({ a: "2", b: "1" })];

const decide = (observed: Partial<JobRolloutObservation>) =>
  decideJobRollout({
    spec: second,
    revisions: revisionsOf(first, second),
    groups: [],
    hasUnknownHistory: false,
    promoted: 0,
    before: stable,
    ...observed,
  });

describe("revisions", () => {
  it("keep the number of a group whose content does not change, even when an earlier content returns", () => {
    const [, changed, back] = revisionsOf(first, second, { ...first, robotSelector: {} });
    expect(changed?.groupRevisions).toEqual({ a: 2, b: 1 });
    expect(back?.groupRevisions).toEqual({ a: 3, b: 3 });
    expect(revisionsOf(first, second, first)[2]?.groupRevisions).toEqual({ a: 1, b: 1 });
  });

  it("do not depend on counts, the way of updating, or defaults", () => {
    const other = { ...first, update: { maxParallel: 5 }, paused: true, priority: 50 };
    expect(isSameRevision(first, other)).toBe(true);
    expect(isSameRevision(first, second)).toBe(false);
  });

  it("differ by path", () => {
    expect(changedPaths(first, second)).toEqual(["taskGroups[name=a].tasks[name=run].env.VERSION"]);
  });
});

describe("decideJobRollout", () => {
  it("starts a rollout, which unchanged groups have completed", () => {
    const decision = decide({ groups: [group("a", { revision: 1 }), group("b", { revision: 1 })] });
    expect(decision?.status).toMatchObject({ revision: 2, latestRevision: 2, stableRevision: 1, phase: "progressing" });
    expect(decision?.events.map(({ reason }) => reason)).toEqual(["RolloutStarted"]);
    const done = decide({
      groups: [group("a", { revision: 2 }), group("b", { revision: 1 })],
      before: decision?.status,
    });
    expect(done?.status).toMatchObject({ phase: "completed", stableRevision: 2, previousStableRevision: 1 });
    const again = decide({ groups: [group("a", { revision: 2 }), group("b", { revision: 1 })], before: done?.status });
    expect(again).toMatchObject({ status: done?.status, events: [] });
    expect(done?.events.map(({ reason }) => reason)).toEqual(["RolloutCompleted"]);
  });

  it("records no event about the first revision", () => {
    const revisions = revisionsOf(first);
    const started = decide({ spec: first, revisions, before: undefined });
    expect(started).toMatchObject({ status: { phase: "progressing" }, events: [] });
    const groups = [group("a", { revision: 1 }), group("b", { revision: 1 })];
    const done = decide({ spec: first, revisions, groups, before: started?.status });
    expect(done).toMatchObject({ status: { phase: "completed" }, events: [] });
  });

  const failed = [group("a", { revision: 2, phase: "failed", message: "why" }), group("b", { revision: 1 })];

  it("stores a failure before it reverts, and ends as reverted", () => {
    const spec = { ...second, update: { autoRevert: true } };
    const started = decide({ spec, groups: failed.slice(1) })?.status;
    const failure = decide({ spec, groups: failed, before: started });
    expect(failure).toMatchObject({ statusFirst: true, isRevert: false });
    expect(failure?.status).toMatchObject({ phase: "reverting", failedRevision: 2 });
    expect(failure?.events.map(({ reason }) => reason)).toEqual(["RolloutFailed", "RolloutReverting"]);
    const reverting = decide({ spec, groups: failed, before: failure?.status });
    expect(reverting).toMatchObject({ isRevert: true, target: { number: 1 }, statusFirst: false, events: [] });
    const groups = [group("a", { revision: 1 }), group("b", { revision: 1 })];
    const reverted = decide({ spec, groups, before: reverting?.status });
    expect(reverted?.status).toMatchObject({ phase: "reverted", revision: 1, latestRevision: 2, stableRevision: 1 });
    expect(reverted?.events.map(({ reason }) => reason)).toEqual(["RolloutReverted"]);
    const again = decide({ spec, groups, before: reverted?.status });
    expect(again).toMatchObject({ status: reverted?.status, events: [] });
  });

  it("stays failed without autoRevert, and reverts once it is set", () => {
    const started = decide({ groups: failed.slice(1) })?.status;
    const failure = decide({ groups: failed, before: started });
    expect(failure?.status).toMatchObject({ phase: "failed", message: "revision 2 failed: group a: why" });
    const again = decide({ groups: failed, before: failure?.status });
    expect(again).toMatchObject({ statusFirst: false, events: [], status: failure?.status });
    const spec = { ...second, update: { autoRevert: true } };
    expect(decide({ spec, groups: failed, before: failure?.status })?.status.phase).toBe("reverting");
  });

  it("rolls out a new spec after a revert", () => {
    const reverted: JobRollout = { ...stable, latestRevision: 2, failedRevision: 2, phase: "reverted" };
    const third = specOf({ a: "3", b: "1" });
    const decision = decide({ spec: third, revisions: revisionsOf(first, second, third), before: reverted });
    expect(decision).toMatchObject({ target: { number: 3 }, isRevert: false });
    expect(decision?.status.failedRevision).toBeUndefined();
  });

  it.each([
    [[true, true], true],
    [[true, false], false],
  ])("promotes the canaries of all groups together: healthy %j", (healthy, isPromoted) => {
    const both = specOf({ a: "2", b: "2" }, { update: { canary: 1, autoPromote: true } });
    const groups = ["a", "b"].map((name, index) =>
      group(name, { revision: 2, phase: "waiting", reason: "AwaitingPromotion", total: 2, healthy: healthy[index] ? 1 : 0 }),
    );
    expect(decide({ spec: both, revisions: revisionsOf(first, both), groups })?.isPromoted).toBe(isPromoted);
  });

  it("promotes no canary that is unhealthy, though tolerated", () => {
    const both = specOf({ a: "2", b: "1" }, { update: { canary: 2, autoPromote: true, abortThreshold: 1 } });
    const rollout = { revision: 2, phase: "waiting", reason: "AwaitingPromotion", total: 2 } as const;
    const isPromoted = (counts: Partial<GroupRollout>) =>
      decide({ spec: both, revisions: revisionsOf(first, both), groups: [group("a", { ...rollout, ...counts })] })?.isPromoted;
    expect(isPromoted({ healthy: 1, unhealthy: 1 })).toBe(false);
    expect(isPromoted({ healthy: 2, unhealthy: 1 })).toBe(false);
    expect(isPromoted({ healthy: 2, unhealthy: 0 })).toBe(true);
  });

  it("promotes by hand", () => {
    expect(decide({ promoted: 2 })?.isPromoted).toBe(true);
    expect(decide({ promoted: 1 })?.isPromoted).toBe(false);
  });
});
