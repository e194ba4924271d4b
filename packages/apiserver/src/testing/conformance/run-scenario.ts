import { setTimeout as sleep } from "node:timers/promises";
import { isJsonObject, jsonEquals } from "@keelson/api-machinery";
import { jsonPatch } from "@keelson/api-machinery/patch";
import { type Answer, type ApiConnection, readAnswer, type WireRequest } from "./api-connection.ts";
import { createComparison } from "./compare.ts";
import { minTimeoutMs, type RecordedRequest, type Scenario, type Step, type Until } from "./corpus.ts";
import { isPlural, removeAt, valuesAt } from "./document-path.ts";
import { compareTexts, type Fields, normalise, normaliseHeader } from "./normalise.ts";
import { MissingVariable, substitute, substituteText, type Variables } from "./variables.ts";
import { readWatch, type WatchReader } from "./watch-reader.ts";

/** The result of a step: the last response, or watch events. */
interface StepResult extends Partial<Answer> {
  readonly events?: readonly unknown[];
  /** The awaited condition never held. */
  readonly isTimedOut?: boolean;
}

/**
 * Sends the requests of a scenario and compares the responses with the recorded ones. Resolves to the differences, one line each; empty if
 * the server conforms. `run` is a unique name for this run, `token` belongs to a user with all rights.
 */
export async function runScenario(
  api: ApiConnection,
  scenario: Scenario,
  { run, token }: { readonly run: string; readonly token: string },
): Promise<readonly string[]> {
  const steps: Record<string, unknown> = {};
  const namespaces = Object.fromEntries((scenario.namespaces ?? []).map((name) => [name, `c-${name}-${run}`]));
  const variables: Variables = { ...namespaces, run, steps };
  const names = ["run", ...Object.keys(namespaces)];
  const comparison = createComparison((text) =>
    text.replaceAll(/\$\{([^}]+)\}/g, (all, name: string) => (names.includes(name) ? String(variables[name]) : all)),
  );
  const watches = new Map<string, WatchReader>();
  const found: string[] = [];

  async function runStep(step: Step): Promise<StepResult> {
    if (step.sleepMs !== undefined) await sleep(step.sleepMs);
    if (step.events !== undefined) {
      const watch = watches.get(step.events.from);
      if (watch === undefined) throw new Error(`watch "${step.events.from}" is not open`);
      return { events: await watch.take(step.events) };
    }
    if (step.request === undefined) throw new Error("the step has neither a request nor events");
    const request = wireRequest(step.request, variables, token);
    if (step.watch !== undefined) return openWatch(step, request);
    const { eventually } = step;
    const deadline = performance.now() + Math.max(eventually?.timeoutMs ?? 0, minTimeoutMs);
    for (;;) {
      const answer = await api.send(request);
      if (eventually === undefined || holds(eventually.until ?? {}, answer, variables)) return answer;
      if (performance.now() > deadline) return { ...answer, isTimedOut: true };
      await sleep(eventually.intervalMs ?? 100);
    }
  }

  async function openWatch({ name, watch = {} }: Step, request: WireRequest): Promise<StepResult> {
    const response = await api.open(request);
    if (response.statusCode !== 200) return readAnswer(response);
    const reader = readWatch(response);
    const head = { status: 200, headers: response.headers };
    if (watch.open === true) {
      watches.set(name, reader);
      return head;
    }
    const events = await reader.take(watch);
    reader.close();
    return { ...head, events };
  }

  try {
    for (const namespace of Object.values(namespaces)) await makeNamespace(api, namespace, token);
    for (const step of scenario.steps) {
      const result = await runStep(step);
      steps[step.name] = result;
      const actual = normaliseResult(step, result, step.managedFields ?? scenario.managedFields ?? false, variables);
      const { body, ...rest } = step.expect;
      const expected = "body" in step.expect ? { ...rest, body } : rest;
      if (!("body" in step.expect)) delete actual["body"];
      const differences = [...comparison.differences(expected, actual, step.messages), ...failedAssertions(step, variables)];
      const text = messageOf(actual["body"]);
      found.push(...differences.map((difference) => `${step.name}: ${difference}`));
      if (differences.length > 0 && text !== "") found.push(`${step.name}: (${text})`);
      if (result.isTimedOut) {
        found.push(`${step.name}: its condition never held; the rest was not run`);
        break;
      }
    }
  } catch (error) {
    found.push(error instanceof MissingVariable ? error.message : String(error));
  } finally {
    for (const watch of watches.values()) watch.close();
    for (const request of [...(scenario.cleanup ?? [])].reverse()) {
      try {
        await api.send(wireRequest(request, variables, token));
      } catch (error) {
        // A failed step did not create the objects that cleanup refers to.
        if (!(error instanceof MissingVariable)) found.push(`cleanup: ${String(error)}`);
      }
    }
    for (const namespace of Object.values(namespaces)) {
      await api.send(plainRequest("DELETE", `/api/v1/namespaces/${namespace}`, token));
    }
  }
  return found;
}

function plainRequest(method: string, target: string, token: string, body?: unknown, type = "application/json"): WireRequest {
  return {
    method,
    target,
    headers: {
      accept: "application/json",
      "user-agent": "conformance/1.0",
      ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { "content-type": type }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
}

/** Creates a namespace with a ServiceAccount whose token is not mounted. */
async function makeNamespace(api: ApiConnection, name: string, token: string): Promise<void> {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
  const { status, body } = await api.send(plainRequest("POST", "/api/v1/namespaces", token, namespace));
  if (status !== 201) throw new Error(`namespace ${name} could not be created: ${status} ${JSON.stringify(body)}`);
  const path = `/api/v1/namespaces/${name}/serviceaccounts`;
  const setting = { automountServiceAccountToken: false };
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default" }, ...setting };
  const created = await api.send(plainRequest("POST", path, token, account));
  if (created.status !== 409) return;
  await api.send(plainRequest("PATCH", `${path}/default`, token, setting, "application/merge-patch+json"));
}

function wireRequest(recorded: RecordedRequest, variables: Variables, defaultToken: string): WireRequest {
  const { method, contentType, accept } = recorded;
  const query = Object.entries(recorded.query ?? {}).flatMap(([key, value]) =>
    (Array.isArray(value) ? value : [value]).map((item) => {
      const text = substitute(item, variables);
      return `${encodeURIComponent(substituteText(key, variables))}=${encodeURIComponent(typeof text === "string" ? text : JSON.stringify(text))}`;
    }),
  );
  const path = substituteText(recorded.path, variables);
  const target = query.length === 0 ? path : `${path}${path.includes("?") ? "&" : "?"}${query.join("&")}`;
  const token = recorded.token === undefined ? defaultToken : substituteText(recorded.token, variables);
  const base = plainRequest(method, target, token);
  const body = bodyOf(recorded, variables);
  const type = contentType ?? (body === undefined ? undefined : "application/json");
  const headers: Record<string, string> = { ...base.headers };
  for (const [name, value] of Object.entries(recorded.headers ?? {})) {
    headers[name.toLowerCase()] = substituteText(value, variables);
  }
  if (type !== undefined) headers["content-type"] = type;
  if (accept !== undefined) headers["accept"] = accept;
  if (body !== undefined) headers["content-length"] = String(Buffer.byteLength(body));
  return { method, target, headers, body };
}

function bodyOf({ body, bodyText, bodyFrom }: RecordedRequest, variables: Variables): string | undefined {
  if (bodyText !== undefined) return substituteText(bodyText, variables);
  if (bodyFrom !== undefined) {
    const patched = jsonPatch(substitute(bodyFrom.value, variables), substitute(bodyFrom.patch ?? [], variables));
    return JSON.stringify(patched);
  }
  return body === undefined ? undefined : JSON.stringify(substitute(body, variables));
}

function holds(until: Until, { status, body }: Answer, variables: Variables): boolean {
  if (until.status !== undefined && until.status !== status) return false;
  return (until.where ?? []).every(({ path, equals, exists, length }) => {
    const [value] = valuesAt(body, substituteText(path, variables));
    if (equals !== undefined && !jsonEquals(value, substitute(equals, variables))) return false;
    if (exists !== undefined && exists !== (value !== undefined && value !== null)) return false;
    return length === undefined || length === (Array.isArray(value) ? value.length : 0);
  });
}

/** A step's result in the form of `expect`. */
function normaliseResult(step: Step, result: StepResult, managed: boolean, variables: Variables): Fields {
  const paths = (list: readonly string[]): string[] => list.map((path) => substituteText(path, variables));
  const one = (value: unknown): unknown => {
    let body = normalise(value, managed);
    if (step.sortItems && isJsonObject(body) && Array.isArray(body["items"])) {
      body["items"].sort((a, b) => compareTexts(identityOf(a), identityOf(b)));
    }
    for (const path of paths(step.ignore ?? [])) removeAt(body, path);
    if (step.pick !== undefined) {
      body = Object.fromEntries(
        paths(step.pick).map((path) => {
          const values = valuesAt(body, path);
          return [path, isPlural(path) ? values : (values[0] ?? null)];
        }),
      );
    }
    return body;
  };
  const actual: Fields = result.status === undefined ? {} : { status: result.status };
  if (step.compare !== "status") {
    if (result.events !== undefined) {
      const events = result.events.filter(isJsonObject);
      if (step.sortEvents) {
        const keyOf = (event: Fields): string[] => [String(event["type"]), ...identityOf(event["object"])];
        events.sort((a, b) => compareTexts(keyOf(a), keyOf(b)));
      }
      actual["events"] = events.map(({ type, object }) => ({ type, object: one(object) }));
    } else if (result.body !== undefined) {
      actual["body"] = typeof result.body === "string" ? result.body : one(result.body);
    }
  }
  if (step.compareHeaders !== undefined) {
    actual["headers"] = Object.fromEntries(
      step.compareHeaders.map((name) => [name, normaliseHeader([result.headers?.[name] ?? ""].flat().join(","))]),
    );
  }
  return actual;
}

function identityOf(object: unknown): string[] {
  const metadata = isJsonObject(object) && isJsonObject(object["metadata"]) ? object["metadata"] : {};
  return [String(metadata["namespace"] ?? ""), String(metadata["name"] ?? "")];
}

function messageOf(body: unknown): string {
  return isJsonObject(body) && typeof body["$message"] === "string" ? body["$message"].slice(0, 400) : "";
}

function failedAssertions(step: Step, variables: Variables): string[] {
  return (step.assert ?? []).flatMap((assertion) =>
    Object.entries(assertion).flatMap(([kind, operands]) => {
      const list = Array.isArray(operands) ? operands : [operands];
      let values: unknown[];
      try {
        values = list.map((operand) => substitute(operand, variables));
      } catch (error) {
        if (kind === "absent" && error instanceof MissingVariable) return [];
        return [`assertion ${kind} of ${JSON.stringify(operands)}: ${String(error)}`];
      }
      if (isTrue(kind, values)) return [];
      return [`assertion ${kind} of ${JSON.stringify(operands)} does not hold: ${JSON.stringify(values).slice(0, 300)}`];
    }),
  );
}

function isTrue(kind: string, [a, b]: readonly unknown[]): boolean {
  switch (kind) {
    case "equal":
      return jsonEquals(a, b);
    case "notEqual":
      return !jsonEquals(a, b);
    case "rvLess":
      return Number(a) < Number(b);
    case "rvLessOrEqual":
      return Number(a) <= Number(b);
    case "exists":
      return a !== null;
    case "length":
      return (Array.isArray(a) || typeof a === "string" ? a.length : -1) === b;
    case "matches":
      return typeof a === "string" && new RegExp(String(b)).test(a);
    default:
      return false;
  }
}
