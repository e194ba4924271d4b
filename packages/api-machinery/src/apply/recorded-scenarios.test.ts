import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { deepFreeze, draft, isJsonObject, type JsonObject, setOwn } from "../json.ts";
import type { KubernetesObject } from "../object.ts";
import type { Schema } from "../schema/schema.ts";
import { isStatusError } from "../status.ts";
import { applyConfiguration, type FieldManagementContext, trackUpdate } from "./field-management.ts";

/** Scenarios recorded from a kube-apiserver, reduced to what can be replayed without a server. */
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
    test(`${scenario.name}: ${scenario.description}`, () => replay(scenario));
  }
});

function replay(scenario: Scenario): void {
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
    let next: KubernetesObject | undefined = live;
    let answer: unknown;
    try {
      next = perform(step, live, body, context);
    } catch (error) {
      if (!isStatusError(error)) throw error;
      answer = error;
    }
    const at = `${scenario.name}/${step.name}`;
    if (step.status >= 400) {
      // Preconditions are the endpoint's.
      if (step.expect?.["details"] && isJsonObject(step.expect["details"]) && !("causes" in step.expect["details"])) continue;
      expect(isStatusError(answer) ? answer.code : answer, at).toBe(step.status);
      expect(causesOf(isStatusError(answer) ? answer.status.details?.causes : []), at).toEqual(causesOf(recordedCauses(step)));
      continue;
    }
    expect(answer, at).toBeUndefined();
    if (next === undefined) continue;
    if (step.expect !== undefined) compare(step, next, at);
    stored.set(step.object, deepFreeze(afterServer(step, next, live)) as KubernetesObject);
  }
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
      return trackUpdate(live, jsonPatch(draft(live) as unknown as JsonObject, body as unknown), context);
    case "merge":
      return trackUpdate(live, mergePatch(draft(live), body) as unknown as KubernetesObject, context);
  }
}

/** What the server stores of it: with its defaults, which the recording shows, and the server's metadata. */
function afterServer(step: Step, object: KubernetesObject, live: KubernetesObject | undefined): KubernetesObject {
  const metadata = { ...object.metadata, uid: live?.metadata.uid ?? "uid-1", namespace: "ns0" };
  if (step.expect === undefined || step.pick || step.op === "get") return { ...object, metadata };
  return { ...(withoutManagedFields(step.expect) as KubernetesObject), metadata };
}

function withoutManagedFields(object: unknown): KubernetesObject {
  const copy = draft(object) as KubernetesObject;
  delete copy.metadata.managedFields;
  return copy;
}

function compare(step: Step, object: KubernetesObject, at: string): void {
  const expected = step.expect ?? {};
  for (const [path, value] of step.pick
    ? Object.entries(expected)
    : [["/metadata/managedFields", metadataOf(expected)["managedFields"]]]) {
    if (path === "/metadata/managedFields")
      expect(normalised(object.metadata.managedFields), `${at} ${path}`).toEqual(normalised(value));
    else if (path === "/metadata/managedFields/*/manager") {
      expect(
        object.metadata.managedFields?.map((entry) => entry.manager),
        at,
      ).toEqual(value);
    } else if (path?.startsWith("/metadata/managedFields[manager=")) {
      const manager = path.slice("/metadata/managedFields[manager=".length, -1);
      const entry = object.metadata.managedFields?.filter((candidate) => candidate.manager === manager);
      expect(normalised(entry), `${at} ${path}`).toEqual(normalised(value === null ? [] : [value]));
    } else if (path === "/spec/template/spec/containers/*/name") {
      const spec = object as unknown as { spec: { template: { spec: { containers: { name: string }[] } } } };
      expect(
        spec.spec.template.spec.containers.map(({ name }) => name),
        at,
      ).toEqual(value);
    } else if (path === "/data") {
      expect((object as unknown as JsonObject)["data"], at).toEqual(value);
    }
  }
  if (step.pick || step.op !== "apply") return;
  // Nothing that is applied or kept may be missing or other; what is only in the recording are defaults.
  const { metadata: _, ...content } = object as unknown as JsonObject;
  const exact = object.kind === "ConfigMap";
  if (exact) expect(content, at).toEqual((({ metadata: __, ...rest }) => rest)(expected));
  else expect(expected, at).toMatchObject(withoutEmptyStrings(content) as JsonObject);
  for (const field of ["labels", "annotations", "finalizers", "ownerReferences"] as const) {
    expect(object.metadata[field], `${at} ${field}`).toEqual(metadataOf(expected)[field]);
  }
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
