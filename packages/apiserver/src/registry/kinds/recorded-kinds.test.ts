import { readFileSync } from "node:fs";
import { isJsonObject, type JsonObject, type KubernetesObject, jsonEquals } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { Outcome, PipelineRequest } from "../../endpoints/outcome.ts";
import { systemUser } from "../../server.ts";
import { toTable } from "../../table/table.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { listAt, textAt, valueAt } from "../object-fields.ts";

/*
 * What a kube-apiserver answered to requests of built-in kinds (testdata/recorded-kinds.json), replayed: bodies with their defaults,
 * status codes, and the causes of refusals. Placeholders in `<>` stand for what differs from run to run.
 */

interface Step {
  readonly name: string;
  readonly request: {
    readonly method: PipelineRequest["method"];
    readonly path: string;
    readonly query?: Readonly<Record<string, string>>;
    readonly accept?: string;
    readonly contentType?: string;
    readonly body?: unknown;
    readonly bodyFrom?: { readonly value: string; readonly patch: readonly JsonObject[] };
  };
  readonly expect: { readonly status: number; readonly body?: unknown };
  readonly pick?: readonly string[];
  readonly compare?: string;
  readonly ignore?: readonly string[];
}

interface Scenario {
  readonly name: string;
  readonly steps: readonly Step[];
}

const scenarios = JSON.parse(
  readFileSync(new URL("./testdata/recorded-kinds.json", import.meta.url), "utf8"),
) as readonly Scenario[];

describe("built-in kinds answer as a recorded kube-apiserver", () => {
  it.each(scenarios)("$name", async ({ steps }) => {
    await using environment = await startTestEnvironment();
    const answers = new Map<string, unknown>();
    const made = await send(environment, {
      method: "POST",
      path: "/api/v1/namespaces",
      body: { apiVersion: "v1", kind: "Namespace", metadata: { name: "ns" } },
    });
    expect(made.status).toBe(201);
    for (const step of steps) {
      const answer = await send(environment, fill(step.request, answers) as Step["request"]);
      answers.set(step.name, answer.body);
      expect([step.name, answer.status, answer.status < 400 ? "" : textAt(answer.body, "message")]).toEqual([
        step.name,
        step.expect.status,
        step.expect.status < 400 ? "" : expect.any(String),
      ]);
      if (step.expect.body === undefined || step.compare === "status") continue;
      const expected = fill(step.expect.body, answers);
      const picked = step.pick === undefined ? without(answer.body, step.ignore ?? []) : pick(answer.body, step.pick);
      expect({ step: step.name, body: shown(picked, expected) }).toEqual({ step: step.name, body: shown(expected, expected) });
    }
  });
});

async function send(
  { handle }: TestEnvironment,
  { method, path, query, accept, contentType, body }: Step["request"],
): Promise<{ readonly status: number; readonly body: unknown }> {
  const outcome = await handle({
    method,
    path,
    ...(query === undefined ? {} : { query }),
    ...(body === undefined ? {} : { body }),
    headers: { "content-type": contentType ?? "application/json" },
    user: systemUser,
    userAgent: "conformance/1.0",
  });
  return { status: codeOf(outcome), body: bodyOf(outcome, accept?.includes("as=Table") === true) };
}

function codeOf(outcome: Outcome): number {
  if (outcome.kind === "object") return outcome.status;
  return outcome.kind === "status" ? (outcome.status.code ?? 0) : 200;
}

function bodyOf(outcome: Outcome, isTable: boolean): unknown {
  if (outcome.kind === "status") return outcome.status;
  if (outcome.kind === "object" && !isTable) return outcome.object.object;
  if (outcome.kind !== "list" && outcome.kind !== "object") return undefined;
  const objects = (outcome.kind === "list" ? outcome.items : [outcome.object]).map(({ object }) => object);
  if (!isTable) return { kind: outcome.resource.listKind, items: objects };
  return { kind: "Table", ...toTable(outcome.resource, objects, { includeObject: "None", now: Date.now() }) };
}

/** `${ns}` and `${steps.NAME.body...}`. */
function fill(value: unknown, answers: ReadonlyMap<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => fill(item, answers));
  if (isJsonObject(value)) {
    const bodyFrom = value["bodyFrom"];
    const filled = Object.fromEntries(Object.entries(value).map(([key, child]) => [key, fill(child, answers)]));
    if (isJsonObject(bodyFrom)) filled["body"] = edited(fill(bodyFrom["value"], answers), listAt(bodyFrom, "patch"));
    return filled;
  }
  if (typeof value !== "string") return value;
  const whole = /^\$\{steps\.([^.]+)\.body\.?([^}]*)\}$/.exec(value);
  if (whole !== null) {
    const path = (whole[2] ?? "").split(".").filter((part) => part !== "");
    return valueAt(answers.get(whole[1] ?? ""), ...path);
  }
  return value.replaceAll("${ns}", "ns");
}

/** The operations of `bodyFrom`: add, replace and remove. */
function edited(value: unknown, patch: readonly unknown[]): unknown {
  const result = structuredClone(value) as JsonObject;
  for (const operation of patch) {
    const path = textAt(operation, "path").split("/").slice(1);
    const last = path.pop() ?? "";
    const parent = valueAt(result, ...path) as JsonObject;
    if (textAt(operation, "op") === "remove") delete parent[last];
    else parent[last] = valueAt(operation, "value") as JsonObject;
  }
  return result;
}

/** A body without the values at these paths. */
function without(body: unknown, paths: readonly string[]): unknown {
  if (paths.length === 0) return body;
  const copy = structuredClone(body);
  for (const path of paths) {
    const parts = path.split("/").slice(1);
    const last = parts.pop() ?? "";
    const parent = valueAt(copy, ...parts);
    if (isJsonObject(parent)) delete parent[last];
  }
  return copy;
}

function pick(body: unknown, paths: readonly string[]): unknown {
  return Object.fromEntries(
    paths.map((path) => [
      path,
      at(
        body,
        path
          .split("/")
          .slice(1)
          .map((part) => part.replaceAll("~1", "/")),
      ) ?? null,
    ]),
  );
}

function at(value: unknown, path: readonly string[]): unknown {
  const [first, ...rest] = path;
  if (first === undefined) return value;
  const keyed = /^(.+)\[(.+)=(.+)\]$/.exec(first);
  if (keyed !== null) {
    const [, list = "", key = "", wanted = ""] = keyed;
    return at(
      listAt(value, list).find((item) => textAt(item, key) === wanted),
      rest,
    );
  }
  if (first === "*") return Object.values(value ?? {}).map((child) => at(child, rest));
  return at(valueAt(value, first), rest);
}

/** A body as it is compared: of refusals the causes, of Tables the columns and cells, of objects what versions agree in. */
function shown(body: unknown, expected: unknown): unknown {
  if (valueAt(expected, "kind") === "Status") {
    const causes = listAt(body, "details", "causes").map((cause) => {
      const reason = textAt(cause, "reason").replace(/^FieldValue(?:TypeInvalid|TooLong|TooMany)$/, "FieldValueInvalid");
      return `${reason} ${textAt(cause, "field")}`;
    });
    return { reason: valueAt(body, "reason"), causes: [...new Set(causes)].sort() };
  }
  if (valueAt(expected, "kind") === "Table") {
    return {
      columns: listAt(body, "columnDefinitions").map((column) => [valueAt(column, "name"), valueAt(column, "priority")]),
      cells: listAt(body, "rows").map((row) =>
        listAt(row, "cells").map((cell) => (/^\d+s$|^<age>$/.test(String(cell)) ? "<age>" : String(cell))),
      ),
    };
  }
  return comparable(body, expected);
}

const varying = new Set([
  "managedFields",
  "ipFamilies",
  "ipFamilyPolicy",
  "internalTrafficPolicy",
  "clusterIPs",
  "resizePolicy",
  "terminatingReplicas",
]);

function comparable(value: unknown, expected: unknown): unknown {
  if (typeof expected === "string" && /^<[a-z]+(?::\d+)?>$/.test(expected)) return value === undefined ? undefined : expected;
  if (Array.isArray(value)) return value.map((item, index) => comparable(item, valueAt(expected, index)));
  if (!isJsonObject(value)) return value;
  const isPod = valueAt(value, "kind") === "Pod";
  const result: Record<string, unknown> = {};
  for (const [key, child] of Object.entries(value)) {
    if (varying.has(key) || child === null) continue;
    const shownChild = comparable(child, valueAt(expected, key));
    if (isPod && key === "metadata" && isJsonObject(shownChild)) delete shownChild["generation"];
    result[key] = shownChild;
  }
  return result;
}

it("knows a difference when it sees one", () => {
  const body: Partial<KubernetesObject> = { kind: "Pod", metadata: { name: "a" } };
  expect(jsonEquals(comparable(body, { kind: "Pod", metadata: { name: "b" } }), body)).toBe(true);
  expect(comparable({ metadata: { uid: "x" } }, { metadata: { uid: "<uid:1>" } })).toEqual({ metadata: { uid: "<uid:1>" } });
});
