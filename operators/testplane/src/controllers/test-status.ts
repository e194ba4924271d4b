import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import { hashOf } from "./spec-hash.ts";

/** An event to record. */
export interface EventDraft {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly note: string;
}

/** Whether a test has finished. */
export function isFinished(status: { readonly phase?: string | undefined } | undefined): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed" || status?.phase === "Aborted";
}

/** Formats a time for a status. */
export const iso = (ms: number): string => new Date(ms).toISOString();

/** Fields that the statuses of both kinds have. */
interface CommonStatus {
  readonly specHash?: string | undefined;
  readonly conditions?: DeepReadonly<Condition[]> | undefined;
}

/** Sets SpecChangedIgnored while the spec differs from the one that the test runs. */
export function reportChangedSpec<S extends CommonStatus>(
  { spec, generation, now }: { readonly spec: unknown; readonly generation: number; readonly now: number },
  status: S,
): S {
  const isChanged = status.specHash !== undefined && hashOf(spec) !== status.specHash;
  const before = status.conditions?.find(({ type }) => type === "SpecChangedIgnored");
  if (!isChanged && before === undefined) return status;
  const conditions = setCondition(
    status.conditions,
    isChanged
      ? {
          type: "SpecChangedIgnored",
          status: true,
          reason: "SpecChanged",
          message: "the spec was changed after the test started; delete the test and apply it again to run the new spec",
          observedGeneration: generation,
        }
      : { type: "SpecChangedIgnored", status: false, reason: "SpecAsStarted", observedGeneration: generation },
    now,
  );
  return conditions === status.conditions ? status : { ...status, conditions };
}
