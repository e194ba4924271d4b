import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { type RequestArguments, sendRequest } from "./testing/send-request.ts";

/** The response of kube-apiserver. What is not given is not compared. */
interface Answer {
  readonly code: number;
  readonly message?: string;
  /** `[reason, field, message]` of each cause. */
  readonly causes?: readonly (readonly [string, string, string])[];
  readonly warnings?: readonly string[];
  /** A part of the object. */
  readonly object?: object;
}

interface Exchange {
  readonly title: string;
  /** Sent in this order; a later step may depend on the objects of an earlier one. */
  readonly steps: readonly { readonly request: RequestArguments; readonly answer: Answer }[];
}

interface Cause {
  readonly reason?: string;
  readonly field?: string;
  readonly message?: string;
}

const folder = new URL("../../testdata/reference-answers/", import.meta.url);

function read(file: string): readonly Exchange[] {
  return (JSON.parse(readFileSync(new URL(file, folder), "utf8")) as { exchanges: Exchange[] }).exchanges;
}

/*
 * Requests with the responses of kube-apiserver 1.35.4, as its decoder and validation code give them, in a file by subject. Their objects
 * have their own names, so all requests of a file share a server.
 */
for (const file of readdirSync(folder).sort()) {
  describe(`reference ${file.replace(".json", "")}`, () => {
    let environment: TestEnvironment;
    beforeAll(async () => {
      environment = await startTestEnvironment();
    });
    afterAll(() => environment.stop());

    it.each(read(file))("$title", async ({ steps }) => {
      for (const { request, answer } of steps) expect(await answerOf(environment, request, answer)).toEqual(answer);
    });
  });
}

/** The response, reduced to what the reference has. */
async function answerOf(environment: TestEnvironment, request: RequestArguments, expected: Answer): Promise<Answer> {
  const { code, body, warnings } = await sendRequest(environment, ...request);
  const causes = (body["details"]?.causes ?? []) as readonly Cause[];
  return {
    code,
    ...(expected.message === undefined ? {} : { message: String(body["message"]) }),
    ...(expected.causes === undefined
      ? {}
      : { causes: causes.map(({ reason = "", field = "", message = "" }) => [reason, field, message] as const) }),
    ...(expected.warnings === undefined ? {} : { warnings }),
    ...(expected.object === undefined ? {} : { object: partOf(body, expected.object) as object }),
  };
}

/** `value` without the fields that `pattern` lacks. */
function partOf(value: unknown, pattern: unknown): unknown {
  if (Array.isArray(pattern) && Array.isArray(value)) return value.map((item, index) => partOf(item, pattern[index]));
  if (typeof pattern !== "object" || pattern === null || typeof value !== "object" || value === null) return value;
  const entries = Object.keys(pattern).map((key) => [
    key,
    partOf((value as Record<string, unknown>)[key], (pattern as Record<string, unknown>)[key]),
  ]);
  return Object.fromEntries(entries);
}
