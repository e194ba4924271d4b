import { systemUser } from "../../system-user.ts";
import type { TestEnvironment } from "../../testing/test-environment.ts";
import type { PipelineRequest } from "../outcome.ts";

/** The body of a response, which tests read without types. */
export type Body = Record<string, ReturnType<typeof JSON.parse>>;

const types = {
  json: "application/json",
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
  operations: "application/json-patch+json",
} as const;

/** Method, path with query, body, and the body's media type. Default: `json`. */
export type RequestArguments = [PipelineRequest["method"], string, unknown?, (keyof typeof types)?];

/** The code of a response, its object or Status, and its warnings. The body of a list is empty. */
export interface TestResponse {
  readonly code: number;
  readonly body: Body;
  readonly warnings: readonly string[];
}

/** Sends a request as a cluster administrator. */
export async function sendRequest(
  { handle }: Pick<TestEnvironment, "handle">,
  ...request: RequestArguments
): Promise<TestResponse> {
  const [method, path, body, type = "json"] = request;
  const url = new URL(path, "http://server");
  const outcome = await handle({
    method,
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: { "content-type": types[type] },
    user: systemUser,
    userAgent: "tester/1",
    ...(body === undefined ? {} : { body }),
  });
  const warnings = "warnings" in outcome ? (outcome.warnings ?? []) : [];
  if (outcome.kind === "object") return { code: outcome.status, body: structuredClone(outcome.object.object), warnings };
  if (outcome.kind === "status") {
    return { code: outcome.status.code ?? 200, body: outcome.status as unknown as Body, warnings };
  }
  return { code: 200, body: {}, warnings };
}

/** Sends a request that fails. Returns the code and reason of the response, and `<reason> <field>` of each cause. */
export async function requestError(
  environment: Pick<TestEnvironment, "handle">,
  ...request: RequestArguments
): Promise<string[]> {
  const { code, body } = await sendRequest(environment, ...request);
  const causes = (body["details"]?.causes ?? []) as { reason: string; field: string }[];
  return [`${code} ${body["reason"] ?? ""}`.trim(), ...causes.map(({ reason, field }) => `${reason} ${field}`)];
}
