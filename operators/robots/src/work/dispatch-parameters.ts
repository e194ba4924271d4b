import type { DeepReadonly } from "@keelson/api-machinery";
import type { Parameterized } from "../api/parent-job.ts";

/** Parameters of a dispatch. */
export interface DispatchParameters {
  readonly meta: Readonly<Record<string, string>>;
  readonly payload?: Uint8Array;
}

/** Maximum size of a payload. */
const maxPayloadBytes = 16 * 1024;

/** Why a parameterized Job cannot be dispatched with these parameters; undefined if it can. */
export function dispatchProblem(
  { payload: policy = "optional", metaRequired = [], metaOptional = [] }: DeepReadonly<Parameterized>,
  { meta, payload }: DispatchParameters,
): string | undefined {
  const allowed = [...metaRequired, ...metaOptional];
  const missing = metaRequired.filter((key) => !Object.hasOwn(meta, key));
  if (missing.length > 0) return `missing metadata ${missing.join(", ")}; set it with --meta ${missing[0]}=VALUE`;
  const unknown = Object.keys(meta).filter((key) => !allowed.includes(key));
  if (unknown.length > 0) {
    return `unknown metadata ${unknown.join(", ")}; the job accepts ${allowed.length === 0 ? "none" : allowed.join(", ")}`;
  }
  if (payload === undefined) return policy === "required" ? "missing payload; set it with --payload FILE" : undefined;
  if (policy === "forbidden") return "the job does not accept a payload";
  if (payload.length > maxPayloadBytes)
    return `the payload is ${payload.length} bytes; must be at most ${maxPayloadBytes} bytes`;
  return undefined;
}
