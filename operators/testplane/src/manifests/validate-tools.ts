import type { DeepReadonly } from "@keelson/api-machinery";
import { compilePattern } from "@keelson/api-machinery/pattern";
import { isDuration, parseDuration } from "@keelson/api-machinery/time";
import type { PodSelection } from "../api/tool-actions.ts";
import type { TestStep } from "../api/test-step.ts";
import { hasTemplate } from "../templating/template.ts";
import { validateUrl } from "./validate-load-generator.ts";

type Step = DeepReadonly<TestStep>;

/** Permissions that an action needs, for the error if the test has none. */
const permissions = {
  logs: "get, list and watch pods, and get pods/log",
  exec: "get, list and watch pods, and get and create pods/exec",
  portForward: "get, list and watch pods, and get and create pods/portforward",
} as const;

/** Validates the actions that tools perform. `hasAccount`: the test has a ServiceAccount. Returns one line per error. */
export function validateTools(step: Step, path: string, hasAccount: boolean): readonly string[] {
  const errors = [...validateHttp(step.http, `${path}.http`), ...validatePortForward(step.portForward, `${path}.portForward`)];
  for (const kind of ["logs", "exec", "portForward"] as const) {
    const action = step[kind];
    if (action === undefined) continue;
    errors.push(...validateSelection(action, `${path}.${kind}`));
    if (!hasAccount)
      errors.push(`${path}.${kind}: requires spec.serviceAccountName, with the permissions to ${permissions[kind]}`);
  }
  errors.push(...validatePattern(step.logs?.contains, `${path}.logs.contains`));
  if (step.logs?.contains !== undefined && step.logs.previous === true)
    errors.push(`${path}.logs.contains: not allowed with previous; use a check of result.stdout`);
  return errors;
}

function validateHttp(http: Step["http"], path: string): readonly string[] {
  if (http === undefined) return [];
  const url = hasTemplate(http.url) ? undefined : validateUrl(http.url);
  return [...(url === undefined ? [] : [`${path}.url: ${url}`]), ...validateRequest(http, path)];
}

function validateRequest(
  { requestTimeout, method = "GET", body }: Pick<NonNullable<Step["http"]>, "requestTimeout" | "method" | "body">,
  path: string,
): readonly string[] {
  const errors: string[] = [];
  if (requestTimeout !== undefined && (!isDuration(requestTimeout) || parseDuration(requestTimeout) <= 0))
    errors.push(`${path}.requestTimeout: ${JSON.stringify(requestTimeout)} is not a duration such as 5s`);
  if (body !== undefined && (method === "GET" || method === "HEAD")) errors.push(`${path}.body: not allowed with ${method}`);
  return errors;
}

function validatePortForward(action: Step["portForward"], path: string): readonly string[] {
  if (action === undefined) return [];
  const { http, send, until } = action;
  const errors = [...validatePattern(until, `${path}.until`)];
  if ((http === undefined) === (send === undefined)) errors.push(`${path}: must have exactly one of http and send`);
  if (until !== undefined && send === undefined) errors.push(`${path}.until: requires send`);
  return http === undefined ? errors : [...errors, ...validateRequest(http, `${path}.http`)];
}

function validateSelection({ pod, labelSelector }: DeepReadonly<PodSelection>, path: string): readonly string[] {
  if ((pod === undefined) === (labelSelector === undefined)) return [`${path}: must have exactly one of pod and labelSelector`];
  // An empty selector would choose any Pod.
  return labelSelector !== undefined && Object.keys(labelSelector).length === 0
    ? [`${path}.labelSelector: must have at least one label`]
    : [];
}

function validatePattern(pattern: string | undefined, path: string): readonly string[] {
  if (pattern === undefined || hasTemplate(pattern)) return [];
  try {
    compilePattern(pattern);
    return [];
  } catch (error) {
    return [`${path}: ${error instanceof Error ? error.message : String(error)}`];
  }
}
