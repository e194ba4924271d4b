import { systemUser } from "../../server.ts";
import type { TestEnvironment } from "../../testing/test-environment.ts";
import type { PipelineRequest } from "../outcome.ts";

/** An answer's body, which tests look into freely. */
export type Body = Record<string, ReturnType<typeof JSON.parse>>;

const types = {
  json: "application/json",
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
  operations: "application/json-patch+json",
} as const;

/** Method, path with its query, body, and what the body is. Default: `json`. */
export type Asked = [PipelineRequest["method"], string, unknown?, (keyof typeof types)?];

/** The code of an answer, its object or Status, and its warnings. A list has no body here. */
export interface Answer {
  readonly code: number;
  readonly body: Body;
  readonly warnings: readonly string[];
}

/** Sends a request as one who may do everything. */
export async function ask({ handle }: Pick<TestEnvironment, "handle">, ...asked: Asked): Promise<Answer> {
  const [method, path, body, type = "json"] = asked;
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

/** The code and the reason of an answer, and `<reason> <field>` of each cause. */
export async function refusal(environment: Pick<TestEnvironment, "handle">, ...asked: Asked): Promise<string[]> {
  const { code, body } = await ask(environment, ...asked);
  const causes = (body["details"]?.causes ?? []) as { reason: string; field: string }[];
  return [`${code} ${body["reason"] ?? ""}`.trim(), ...causes.map(({ reason, field }) => `${reason} ${field}`)];
}
