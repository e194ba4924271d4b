import { createHash } from "node:crypto";
import { type DeepReadonly, draft, isJsonObject, jsonEquals } from "@keelson/api-machinery";
import type { ControllerRevisionObject } from "@keelson/api-machinery/kinds";
import { applyDefaults } from "@keelson/api-machinery/schema";
import { Job } from "../api/job.ts";
import { childName } from "../work/child-name.ts";

/** Spec of a Job. */
export type JobSpec = Job["spec"];

/** A past or current spec of a Job. */
export interface JobRevision {
  /** From 1. */
  readonly number: number;
  /** Name of its ControllerRevision. */
  readonly name: string;
  readonly createdAt: string | undefined;
  readonly spec: DeepReadonly<JobSpec>;
  /** For each group the revision that its tasks carry: the one in which the group got its content. */
  readonly groupRevisions: Readonly<Record<string, number>>;
}

/** The revisions of a Job, oldest first. Objects that hold no spec are ignored. */
export function revisionsOf(objects: readonly DeepReadonly<ControllerRevisionObject>[]): readonly JobRevision[] {
  return objects
    .flatMap(({ metadata, revision, data }) => {
      const content = contentOf(data);
      if (content === undefined || metadata.deletionTimestamp !== undefined) return [];
      return [{ number: revision, name: metadata.name ?? "", createdAt: metadata.creationTimestamp, ...content }];
    })
    .sort((a, b) => a.number - b.number);
}

function contentOf(data: unknown): Pick<JobRevision, "spec" | "groupRevisions"> | undefined {
  if (!isJsonObject(data) || !isJsonObject(data.spec) || !isJsonObject(data.groupRevisions)) return undefined;
  // Written by the controller from a validated Job, and immutable.
  return Array.isArray(data.spec.taskGroups) ? (data as unknown as Pick<JobRevision, "spec" | "groupRevisions">) : undefined;
}

/** Name of a revision's object. It contains the Job's uid, so a recreated Job does not find the revisions of its predecessor. */
export function revisionName(job: DeepReadonly<Job>, number: number): string {
  const hash = createHash("sha256")
    .update(job.metadata.uid ?? "")
    .digest("hex")
    .slice(0, 8);
  return childName(job.metadata.name ?? "", hash, String(number));
}

/** The part of a spec that a change of which is rolled out. Counts and the way of updating take effect without one. */
export function revisedPart(spec: DeepReadonly<JobSpec>) {
  // An operator update may add defaults, which is not a change.
  const complete = draft(spec);
  if (Job.schema.properties?.spec !== undefined) applyDefaults(Job.schema.properties.spec, complete);
  const { update: _update, paused: _paused, revisionHistoryLimit: _limit, taskGroups, datacenters: _, ...rest } = complete;
  return {
    ...rest,
    taskGroups: taskGroups.map(({ count: _count, update: _groupUpdate, ...group }) => group),
  };
}

/** Whether a change from one spec to the other needs no rollout. */
export function isSameRevision(a: DeepReadonly<JobSpec>, b: DeepReadonly<JobSpec>): boolean {
  return jsonEquals(revisedPart(a), revisedPart(b));
}

/** Paths whose values differ, such as `taskGroups[name=web].tasks[name=run].env.VERSION`. */
export function changedPaths(before: unknown, after: unknown, path = ""): readonly string[] {
  if (jsonEquals(before, after)) return [];
  if (Array.isArray(before) && Array.isArray(after) && isNamed(before) && isNamed(after)) {
    const names = new Set([...before, ...after].map(({ name }) => name));
    return [...names].flatMap((name) =>
      changedPaths(
        before.find((each) => each.name === name),
        after.find((each) => each.name === name),
        `${path}[name=${name}]`,
      ),
    );
  }
  if (isJsonObject(before) && isJsonObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return keys.flatMap((key) => changedPaths(before[key], after[key], path === "" ? key : `${path}.${key}`));
  }
  return [path];
}

function isNamed(list: readonly unknown[]): list is readonly { readonly name: string }[] {
  return list.every((each) => isJsonObject(each) && typeof each.name === "string");
}

/** The `data` of a new revision's object. A group whose content an earlier revision had gets that revision's number. */
export function revisionData(
  spec: DeepReadonly<JobSpec>,
  number: number,
  earlier: readonly JobRevision[],
): Pick<JobRevision, "spec" | "groupRevisions"> {
  const groupRevisions: Record<string, number> = {};
  for (const { name } of spec.taskGroups) {
    const content = groupPart(spec, name);
    const same = earlier.findLast((revision) => jsonEquals(groupPart(revision.spec, name), content));
    groupRevisions[name] = same?.groupRevisions[name] ?? number;
  }
  return { spec, groupRevisions };
}

/** The part of a group that its tasks are created from: everything but `count`. Undefined if the group does not exist. */
export function groupPart(spec: DeepReadonly<JobSpec>, name: string): Record<string, unknown> | undefined {
  const { taskGroups, ...common } = revisedPart(spec);
  const group = taskGroups.find((each) => each.name === name);
  return group === undefined ? undefined : { ...common, ...group };
}
