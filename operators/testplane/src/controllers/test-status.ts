import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import { hashOf } from "./spec-hash.ts";

/** An event to be told. */
export interface EventClaim {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly note: string;
}

/** Whether a test has ended. */
export function isOver(status: { readonly phase?: string | undefined } | undefined): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed" || status?.phase === "Aborted";
}

/** A moment as a status tells it. */
export const iso = (ms: number): string => new Date(ms).toISOString();

/** What any test's status has. */
interface CommonStatus {
  readonly specHash?: string | undefined;
  readonly conditions?: DeepReadonly<Condition[]> | undefined;
}

/** Says once that a changed spec is not followed; takes it back when the spec is again what runs. */
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
          message: "the spec was changed after the test had started; delete the test and apply it again to run the new one",
          observedGeneration: generation,
        }
      : { type: "SpecChangedIgnored", status: false, reason: "SpecAsStarted", observedGeneration: generation },
    now,
  );
  return conditions === status.conditions ? status : { ...status, conditions };
}
