import { suggestion } from "../functions/closest-name.ts";
import { builtInKinds } from "../watching/resource-mapper.ts";

/** Grace period for a kind that is not served: its definition may have been applied just before the test. */
const graceMs = 10_000;

/** A kind that the API server does not serve. */
export interface UnknownKind {
  readonly apiVersion: string;
  readonly kind: string;
}

/** Until when the kind may still be defined. A CustomResourceDefinition cannot add kinds to built-in groups. */
export function unknownKindDeadline(unknown: UnknownKind, startedAtMs: number): number {
  return isBuiltInGroup(unknown) ? startedAtMs : startedAtMs + graceMs;
}

/** Whether the API group is built in. All groups of CustomResourceDefinitions have a dot. */
export function isBuiltInGroup({ apiVersion }: UnknownKind): boolean {
  const [group = ""] = apiVersion.includes("/") ? apiVersion.split("/") : [];
  return !group.includes(".") || builtInKinds(apiVersion).length > 0;
}

/** Error message for an unknown kind. */
export function unknownKindMessage({ apiVersion, kind }: UnknownKind): string {
  return `the API server does not serve ${kind} of ${apiVersion}${suggestion(kind, builtInKinds(apiVersion))}`;
}
