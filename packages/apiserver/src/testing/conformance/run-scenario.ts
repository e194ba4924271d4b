import { setTimeout as sleep } from "node:timers/promises";
import { isJsonObject, jsonEquals } from "@keelson/api-machinery";
import { jsonPatch } from "@keelson/api-machinery/patch";
import { type Answer, type ApiConnection, readAnswer, type WireRequest } from "./api-connection.ts";
import { failedAssertions } from "./assertions.ts";
import { Comparison } from "./compare.ts";
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

/** Options of {@link runScenario}. */
interface RunOptions {
  readonly run: string;
  readonly token: string;
  readonly patienceMs?: number;
}

/**
 * Sends the requests of a scenario and compares the responses with the recorded ones. Resolves to the differences, one line each; empty if
 * the server conforms. `run` is a unique name for this run. `token` belongs to a user with all permissions; empty if the connection has a certificate
 * of such a user. Results are awaited for `patienceMs` even if the recording says less. Default: {@link minTimeoutMs}.
 */
export function runScenario(api: ApiConnection, scenario: Scenario, options: RunOptions): Promise<readonly string[]> {
  return new ScenarioRun(api, scenario, options).run();
}

class ScenarioRun {
  readonly #api: ApiConnection;
  readonly #scenario: Scenario;
  readonly #token: string;
  readonly #patienceMs: number;
  /** Names of the run's namespaces. */
  readonly #namespaces: readonly string[];
  readonly #steps: Record<string, unknown> = {};
  readonly #variables: Variables;
  readonly #comparison: Comparison;
  readonly #watches = new Map<string, WatchReader>();
  readonly #found: string[] = [];

  constructor(api: ApiConnection, scenario: Scenario, { run, token, patienceMs = minTimeoutMs }: RunOptions) {
    this.#api = api;
    this.#patienceMs = patienceMs;
    this.#scenario = scenario;
    this.#token = token;
    const namespaces = Object.fromEntries((scenario.namespaces ?? []).map((name) => [name, `c-${name}-${run}`]));
    this.#namespaces = Object.values(namespaces);
    const variables: Variables = { ...namespaces, run, steps: this.#steps };
    this.#variables = variables;
    const names = ["run", ...Object.keys(namespaces)];
    this.#comparison = new Comparison((text) =>
      text.replaceAll(/\$\{([^}]+)\}/g, (all, name: string) => (names.includes(name) ? String(variables[name]) : all)),
    );
  }

  async run(): Promise<readonly string[]> {
    try {
      for (const namespace of this.#namespaces) await makeNamespace(this.#api, namespace, this.#token);
      for (const step of this.#scenario.steps) {
        if (await this.#passes(step)) continue;
        this.#found.push(`${step.name}: its condition never held; the rest was not run`);
        break;
      }
    } catch (error) {
      this.#found.push(error instanceof MissingVariable ? error.message : String(error));
    } finally {
      await this.#cleanUp();
    }
    return this.#found;
  }

  /** Runs a step and compares its result. Resolves to false if its condition never held. */
  async #passes(step: Step): Promise<boolean> {
    const result = await this.#result(step);
    this.#steps[step.name] = result;
    const managedFields = step.managedFields ?? this.#scenario.managedFields ?? false;
    const actual = normaliseResult(step, result, managedFields, this.#variables);
    const { body, ...rest } = step.expect;
    const expected = "body" in step.expect ? { ...rest, body } : rest;
    if (!("body" in step.expect)) delete actual["body"];
    const differences = [
      ...this.#comparison.differences(expected, actual, step.messages),
      ...failedAssertions(step, this.#variables),
    ];
    const text = messageOf(actual["body"]);
    this.#found.push(...differences.map((difference) => `${step.name}: ${difference}`));
    if (differences.length > 0 && text !== "") this.#found.push(`${step.name}: (${text})`);
    return result.isTimedOut !== true;
  }

  async #result(step: Step): Promise<StepResult> {
    if (step.sleepMs !== undefined) await sleep(step.sleepMs);
    if (step.events !== undefined) {
      const watch = this.#watches.get(step.events.from);
      if (watch === undefined) throw new Error(`watch "${step.events.from}" is not open`);
      return { events: await watch.take(step.events) };
    }
    if (step.request === undefined) throw new Error("the step has neither a request nor events");
    const request = wireRequest(step.request, this.#variables, this.#token);
    if (step.watch !== undefined) return this.#openWatch(step, request);
    const { eventually } = step;
    const deadline = performance.now() + Math.max(eventually?.timeoutMs ?? 0, this.#patienceMs);
    for (;;) {
      const answer = await this.#api.send(request);
      if (eventually === undefined || holds(eventually.until ?? {}, answer, this.#variables)) return answer;
      if (performance.now() > deadline) return { ...answer, isTimedOut: true };
      await sleep(eventually.intervalMs ?? 100);
    }
  }

  async #openWatch({ name, watch = {} }: Step, request: WireRequest): Promise<StepResult> {
    const response = await this.#api.open(request);
    if (response.statusCode !== 200) return readAnswer(response);
    const reader = readWatch(response, this.#patienceMs);
    const head = { status: 200, headers: response.headers };
    if (watch.open === true) {
      this.#watches.set(name, reader);
      return head;
    }
    const events = await reader.take(watch);
    reader.close();
    return { ...head, events };
  }

  async #cleanUp(): Promise<void> {
    for (const watch of this.#watches.values()) watch.close();
    for (const request of [...(this.#scenario.cleanup ?? [])].reverse()) {
      try {
        await this.#api.send(wireRequest(request, this.#variables, this.#token));
      } catch (error) {
        // A failed step did not create the objects that cleanup refers to.
        if (!(error instanceof MissingVariable)) this.#found.push(`cleanup: ${String(error)}`);
      }
    }
    for (const namespace of this.#namespaces) {
      await this.#api.send(plainRequest("DELETE", `/api/v1/namespaces/${namespace}`, this.#token));
    }
  }
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
  return { method, target, headers, body, hasOwnCredentials: recorded.token !== undefined };
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
