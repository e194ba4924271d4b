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
  ["DELETE", `${maps}/a`, "unexpected end", "{", "couldn't get version/kind; json parse error: unexpected end"],
] as const)("names the kind that the body of a %s should be", async (method, path, fault, body, message) => {
  expect(await messageOf(method, path, fault, body)).toBe(`400 ${message}`);
});

it("of a patch is reported after a missing object, as what the patch is", async () => {
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "patched" } };
  await environment.handle({ method: "POST", path: maps, body, user: systemUser });
  expect(await messageOf("PATCH", `${maps}/missing`, "unexpected end", "{")).toBe('404 configmaps "missing" not found');
  expect(await messageOf("PATCH", `${maps}/patched`, "unexpected end", "{")).toBe("400 error decoding patch: unexpected end");
});
