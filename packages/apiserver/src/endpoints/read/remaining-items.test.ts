import { afterAll, beforeAll, expect, it } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { sendRequest } from "../testing/send-request.ts";
import { decodeContinue, encodeContinue } from "./continue-token.ts";

const maps = "/api/v1/namespaces/default/configmaps";
const prefix = "/configmaps/default/";
let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
  for (let index = 0; index < 9; index++) {
    await sendRequest(environment, "POST", maps, { metadata: { name: `m${index}`, labels: { app: "a" } } });
  }
});
afterAll(() => environment.stop());

interface Page {
  readonly remaining: number | undefined;
  readonly token: string;
}

async function page(query: Readonly<Record<string, string>>): Promise<Page> {
  const outcome = await environment.handle({ method: "GET", path: maps, query, headers: {}, user: systemUser });
  if (outcome.kind !== "list") throw new TypeError(`unexpected ${outcome.kind}`);
  return { remaining: outcome.listMeta.remainingItemCount, token: outcome.listMeta.continue ?? "" };
}

it("counts the items after the first page alone: the token of a page tells the next one", async () => {
  const first = await page({ limit: "2" });
  const second = await page({ limit: "3", continue: first.token });
  expect([first.remaining, second.remaining]).toEqual([7, 4]);
  const changed = encodeContinue({ ...decodeContinue(first.token, prefix), remaining: 1_000 }, prefix);
  expect((await page({ limit: "3", continue: changed })).remaining).toBe(997);
});

it.each(["", ',"remaining":-1', ',"remaining":0.5', ',"remaining":"4"'])(
  "counts again after a token with %j",
  async (remaining) => {
    const { token } = await page({ limit: "2" });
    const text = Buffer.from(token, "base64url")
      .toString()
      .replace(/,"remaining":7/, remaining);
    expect((await page({ limit: "3", continue: Buffer.from(text).toString("base64url") })).remaining).toBe(4);
  },
);

it("counts nothing if a selector applies", async () => {
  const { token } = await page({ limit: "2" });
  const next = await page({ limit: "3", continue: token, labelSelector: "app=a" });
  expect([next.remaining, decodeContinue(next.token, prefix).remaining]).toEqual([undefined, undefined]);
});

it("shows one state in the pages after a state that is gone, despite changes made meanwhile", async () => {
  const first = await page({ limit: "2" });
  const { startAfter } = decodeContinue(first.token, prefix);
  const gone = encodeContinue({ revision: -1, startAfter }, prefix);
  const second = await page({ limit: "2", continue: gone });
  const { revision } = decodeContinue(second.token, prefix);
  await sendRequest(environment, "POST", maps, { metadata: { name: "other" } });
  const third = await page({ limit: "2", continue: second.token });
  expect(revision).toBeGreaterThan(0);
  expect(decodeContinue(third.token, prefix).revision).toBe(revision);
  expect([second.remaining, third.remaining]).toEqual([5, 3]);
});
