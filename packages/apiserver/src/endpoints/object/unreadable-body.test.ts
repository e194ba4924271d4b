import { afterAll, beforeAll, expect, it } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import type { PipelineRequest } from "../outcome.ts";
import { UnreadableBodyError } from "./unreadable-body.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

const maps = "/api/v1/namespaces/default/configmaps";
const text = '{"apiVersion":"v1","kind":"ConfigMap"';
const unrecognized =
  "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ";

/** The message of the response to a request whose body is not JSON. */
async function messageOf(method: PipelineRequest["method"], path: string, fault: string, body: string): Promise<string> {
  const outcome = await environment.handle({
    method,
    path,
    headers: { "content-type": method === "PATCH" ? "application/merge-patch+json" : "application/json" },
    user: systemUser,
    receive: () => Promise.reject(new UnreadableBodyError(fault, body)),
  });
  return outcome.kind === "status" ? `${outcome.status.code} ${outcome.status.message}` : outcome.kind;
}

it.each([
  [
    "POST",
    maps,
    "unexpected end of JSON input",
    text,
    `${unrecognized}unexpected end of JSON input ({"apiVersion":"v1","kind":"Con ...)`,
  ],
  [
    "PUT",
    `${maps}/a`,
    "invalid character 'a' looking for beginning of value",
    "abc",
    `${unrecognized}invalid character 'a' looking for beginning of value (616263)`,
  ],
  [
    "PATCH",
    `${maps}/a`,
    "unexpected end of JSON input",
    text,
    "the body of the request is not valid JSON: unexpected end of JSON input",
  ],
] as const)("names the kind that the body of a %s should be", async (method, path, fault, body, message) => {
  expect(await messageOf(method, path, fault, body)).toBe(`400 ${message}`);
});
