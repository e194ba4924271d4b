import type { DeepReadonly } from "@keelson/api-machinery";
import type { ContainerState, JobObject, PodObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import type { RhinoJob } from "../api/rhino-job.ts";

/*
 * Objects for tests of decisions, as the API server would return them.
 */

/** 2026-01-01T00:00:00Z. */
export const t0 = Date.UTC(2026, 0, 1);

/** RFC 3339 time, `seconds` after {@link t0}. */
export const at = (seconds: number): string => formatTime(t0 + seconds * 1000);

/** UID of the RhinoJobs in tests. */
export const uid = "0a1b2c3d-0000-4000-8000-000000000001";

/** A RhinoJob with the given parts of spec and status. */
export function rhinoJobOf(
  spec: Partial<RhinoJob["spec"]> = {},
  rest: { status?: NonNullable<RhinoJob["status"]>; name?: string; deleting?: boolean } = {},
): DeepReadonly<RhinoJob> {
  return {
    apiVersion: "openrhino.org/v1alpha2",
    kind: "RhinoJob",
    metadata: {
      name: rest.name ?? "pi",
      namespace: "default",
      uid,
      generation: 1,
      ...(rest.deleting ? { deletionTimestamp: at(0) } : {}),
    },
    spec: {
      image: "x",
      parallelism: 2,
      ttl: 600,
      appExec: "./pi",
      memoryAllocationMode: "FixedPerCoreMemory",
      memoryAllocationSize: 2,
      mpiImplementation: "Auto",
      ...spec,
    },
    ...(rest.status ? { status: rest.status } : {}),
  };
}

/** A Job of {@link rhinoJobOf}. `end`: its result and end time. */
export function jobOf(
  type: "launcher" | "workers",
  rest: {
    end?: { type: "Complete" | "Failed"; reason?: string; message?: string; at?: number };
    ownerUid?: string;
    suspended?: boolean;
    deleting?: boolean;
  } = {},
): DeepReadonly<JobObject> {
  const { end, ownerUid = uid } = rest;
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name: `pi-0a1b2-${type}`,
      namespace: "default",
      uid: `uid-${type}`,
      ownerReferences: [
        { apiVersion: "openrhino.org/v1alpha2", kind: "RhinoJob", name: "pi", uid: ownerUid, controller: true },
      ],
      ...(rest.deleting ? { deletionTimestamp: at(0) } : {}),
    },
    spec: { template: { spec: { containers: [] } }, ...(rest.suspended ? { suspend: true } : {}) },
    status: end
      ? {
          conditions: [
            {
              type: end.type,
              status: "True",
              reason: end.reason ?? "",
              message: end.message ?? "",
              lastTransitionTime: at(end.at ?? 0),
            },
          ],
        }
      : { active: 1 },
  };
}

/** A Pod of one of those Jobs. */
export function podOf(
  name: string,
  phase: NonNullable<PodObject["status"]>["phase"] & string,
  rest: { ready?: boolean; ip?: string; state?: ContainerState; deleting?: boolean; unschedulable?: string } = {},
): DeepReadonly<PodObject> {
  const type = name.startsWith("w") ? "workers" : "launcher";
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      ownerReferences: [
        { apiVersion: "batch/v1", kind: "Job", name: `pi-0a1b2-${type}`, uid: `uid-${type}`, controller: true },
      ],
      ...(rest.deleting ? { deletionTimestamp: at(0) } : {}),
    },
    spec: { containers: [] },
    status: {
      phase,
      ...(rest.ip ? { podIP: rest.ip } : {}),
      conditions: [
        { type: "Ready", status: rest.ready ? "True" : "False" },
        ...(rest.unschedulable
          ? [{ type: "PodScheduled", status: "False" as const, reason: "Unschedulable", message: rest.unschedulable }]
          : []),
      ],
      ...(rest.state
        ? {
            containerStatuses: [{ name: "c", ready: false, restartCount: 0, image: "x", imageID: "", state: rest.state }],
          }
        : {}),
    },
  };
}
