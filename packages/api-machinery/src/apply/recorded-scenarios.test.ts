import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { deepFreeze, draft, isJsonObject, type JsonObject, setOwn } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import type { Schema } from "../schema/schema.ts";
import { isStatusError } from "../protocol/status.ts";
import { applyConfiguration } from "./apply-configuration.ts";
import type { FieldManagementContext } from "./endpoint.ts";
import { trackUpdate } from "./track-update.ts";

/** Scenarios recorded from a kube-apiserver, reduced to those that can be replayed without a server. */
interface Recording {
  fieldsV1Collapsed: string[];
  fieldsV1ItemsCollapsed: string[];
  schemas: Record<string, Schema>;
  scenarios: Scenario[];
}

interface Scenario {
  name: string;
  description: string;
  kind?: string | null;
  schema?: Schema;
  hasStatus?: boolean;
  steps: Step[];
}

interface Step {
  name: string;
  op: "apply" | "create" | "put" | "merge" | "json" | "get";
  object: string;
  manager: string;
  subresource?: string;
  force?: boolean;
  status: number;
  body?: unknown;
  pick?: boolean;
  expect?: JsonObject;
}

const recording = JSON.parse(
  readFileSync(new URL("../../testdata/apply-scenarios.json", import.meta.url), "utf8"),
) as Recording;

describe("recorded from a kube-apiserver", () => {
  for (const scenario of recording.scenarios) {
    test(`${scenario.name}: ${scenario.description}`, () => {
      const { actual, expected } = replay(scenario);
      expect(Object.keys(expected).length).toBeGreaterThan(0);
      expect(actual).toEqual(expected);
    });
  }
});

/** The actual and the recorded result, by step and aspect. */
interface Outcome {
  readonly actual: Record<string, unknown>;
  readonly expected: Record<string, unknown>;
}

function replay(scenario: Scenario): Outcome {
  const outcome: Outcome = { actual: {}, expected: {} };
  const note = (aspect: string, actual: unknown, expected: unknown): void => {
    outcome.actual[aspect] = actual;
    outcome.expected[aspect] = expected;
  };
  const stored = new Map<string, KubernetesObject>();
  let clock = 0;
  for (const step of scenario.steps) {
    const live = stored.get(step.object);
    const body = step.body as KubernetesObject & JsonObject;
    const context: FieldManagementContext & { force: boolean } = {
      schema: scenario.schema ?? recording.schemas[scenario.kind ?? ""] ?? {},
      manager: step.manager,
      apiVersion: isJsonObject(body) && typeof body.apiVersion === "string" ? body.apiVersion : (live?.apiVersion ?? "v1"),
      time: new Date(Date.UTC(2026, 0, 1) + clock++ * 1000).toISOString().replace(".000Z", "Z"),
      hasStatus: scenario.hasStatus ?? scenario.kind !== "ConfigMap",
      force: step.force ?? false,
      ...(step.subresource ? { subresource: step.subresource } : {}),
    };
    // Preconditions are the endpoint's.
    if (step.status >= 400 && recordedCauses(step) === undefined) continue;
    let next: KubernetesObject | undefined;
    try {
      next = perform(step, live, body, context);
    } catch (error) {
      if (!isStatusError(error)) throw error;
      note(`${step.name}: code`, error.code, step.status);
      note(`${step.name}: causes`, causesOf(error.status.details?.causes), causesOf(recordedCauses(step)));
      continue;
    }
    note(`${step.name}: code`, 200, step.status === 201 ? 200 : step.status);
    if (next === undefined) continue;
    compare(step, next, (aspect, actual, expected) => note(`${step.name}: ${aspect}`, actual, expected));
    stored.set(step.object, deepFreeze(afterServer(step, next, live)) as KubernetesObject);
  }
  return outcome;
}

function perform(
  step: Step,
  live: KubernetesObject | undefined,
  body: KubernetesObject,
  context: FieldManagementContext & { force: boolean },
): KubernetesObject | undefined {
  switch (step.op) {
    case "get":
      return live;
    case "apply":
      return applyConfiguration(live, body, context);
    case "create":
      return trackUpdate(undefined, withoutManagedFields(step.expect ?? body), context);
    case "put":
    case "json":
      return trackUpdate(live, jsonPatch(draft(live) as unknown as JsonObject, body), context);
    case "merge":
      return trackUpdate(live, mergePatch(draft(live), body) as KubernetesObject, context);
  }
}

/** Returns what the server stores: with defaults, which the recording shows, and server-set metadata. */
function afterServer(step: Step, object: KubernetesObject, live: KubernetesObject | undefined): KubernetesObject {
  const metadata = { ...object.metadata, uid: live?.metadata.uid ?? "uid-1", namespace: "ns0" };
  if (step.expect === undefined || step.pick || step.op === "get") return { ...object, metadata };
  return { ...withoutManagedFields(step.expect), metadata };
}

function withoutManagedFields(object: unknown): KubernetesObject {
  const copy = draft(object) as KubernetesObject;
  delete copy.metadata.managedFields;
  return copy;
}

type Note = (aspect: string, actual: unknown, expected: unknown) => void;

function compare(step: Step, object: KubernetesObject, note: Note): void {
  const expected = step.expect;
  if (expected === undefined) return;
  if (step.pick) {
    for (const [path, value] of Object.entries(expected)) comparePicked(path, value, object, note);
    return;
  }
  const recordedMetadata = metadataOf(expected);
  note("managedFields", normalised(object.metadata.managedFields), normalised(recordedMetadata["managedFields"]));
  if (step.op !== "apply") return;
  const { metadata: _, ...content } = withoutEmptyStrings(object) as JsonObject;
  // Of what the server stored of a Deployment, some are its defaults. ConfigMaps have none.
  note("content", content, object.kind === "ConfigMap" ? without(expected, "metadata") : restrictedTo(expected, content));
  for (const field of ["labels", "annotations", "finalizers", "ownerReferences"] as const) {
    note(field, object.metadata[field], recordedMetadata[field]);
  }
}

function comparePicked(path: string, value: unknown, object: KubernetesObject, note: Note): void {
  const byManager = /^\/metadata\/managedFields\[manager=(\w+)\]$/.exec(path);
  if (path === "/metadata/managedFields") {
    note(path, normalised(object.metadata.managedFields), normalised(value));
  } else if (path === "/metadata/managedFields/*/manager") {
    note(
      path,
      object.metadata.managedFields?.map(({ manager }) => manager),
      value,
    );
  } else if (byManager) {
    const entries = object.metadata.managedFields?.filter(({ manager }) => manager === byManager[1]);
    note(path, normalised(entries), normalised(value === null ? [] : [value]));
  } else if (path === "/spec/template/spec/containers/*/name") {
    const { spec } = object as unknown as { spec: { template: { spec: { containers: { name: string }[] } } } };
    note(
      path,
      spec.template.spec.containers.map(({ name }) => name),
      value,
    );
  } else if (path === "/data") {
    note(path, (object as unknown as JsonObject)["data"], value);
  }
}

function without(object: JsonObject, name: string): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
}

/** Returns the fields of `recorded` that `actual` has too. */
function restrictedTo(recorded: unknown, actual: unknown): unknown {
  if (Array.isArray(recorded) && Array.isArray(actual)) {
    return recorded.map((element, index) => restrictedTo(element, actual[index]));
  }
  if (!isJsonObject(recorded) || !isJsonObject(actual)) return recorded;
  return Object.fromEntries(
    Object.keys(actual).flatMap((key) =>
      Object.hasOwn(recorded, key) ? [[key, restrictedTo(recorded[key], actual[key])]] : [],
    ),
  );
}

function withoutEmptyStrings(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEmptyStrings);
  if (!isJsonObject(value)) return value;
  const result: JsonObject = {};
  for (const [key, child] of Object.entries(value)) if (child !== "") setOwn(result, key, withoutEmptyStrings(child));
  return result;
}

function metadataOf(object: JsonObject): JsonObject {
  return isJsonObject(object["metadata"]) ? object["metadata"] : {};
}

function recordedCauses(step: Step): unknown {
  const details = step.expect?.["details"];
  return isJsonObject(details) ? details["causes"] : undefined;
}

function causesOf(causes: unknown): string[] {
  const lines = (Array.isArray(causes) ? causes : []).map((cause: Record<string, string>) => {
    // The recorded server was too old to name the subresource.
    const message = cause["message"] ?? cause["$message"];
    return `${cause["reason"]} ${cause["field"]} ${message?.replace(/ with subresource "\w+"/, "")}`;
  });
  return [...new Set(lines)].sort();
}

function normalised(managedFields: unknown): unknown {
  if (!Array.isArray(managedFields)) return [];
  return managedFields
    .map((entry: JsonObject) => {
      const { time: _, subresource: __, ...rest } = entry;
      return { ...rest, fieldsV1: collapse(rest["fieldsV1"]) };
    })
    .sort((left, right) => (sortKey(left) < sortKey(right) ? -1 : 1));
}

function sortKey(entry: JsonObject): string {
  return [entry["manager"], entry["operation"], entry["apiVersion"]].join(" ");
}

function collapse(fields: unknown): JsonObject {
  const result: JsonObject = {};
  if (!isJsonObject(fields)) return result;
  for (const [key, value] of Object.entries(fields)) {
    if (recording.fieldsV1Collapsed.includes(key)) result[key] = {};
    else if (recording.fieldsV1ItemsCollapsed.includes(key) && isJsonObject(value)) {
      result[key] = Object.fromEntries(
        Object.keys(value)
          .filter((item) => item !== ".")
          .map((item) => [item, {}]),
      );
    } else result[key] = collapse(value);
  }
  return result;
}

function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch;
  const result: JsonObject = isJsonObject(target) ? target : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value) as JsonObject;
  }
  return result;
}

function jsonPatch(target: JsonObject, operations: unknown): KubernetesObject {
  for (const { op, path, value } of operations as { op: string; path: string; value: JsonObject }[]) {
    const steps = path.split("/").slice(1);
    const last = steps.pop() ?? "";
    let parent: JsonObject = target;
    for (const name of steps) parent = parent[name] as JsonObject;
    if (op === "remove") delete parent[last];
    else parent[last] = value;
  }
  return target as unknown as KubernetesObject;
}
