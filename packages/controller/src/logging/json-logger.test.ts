import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test } from "vitest";
import { createJsonLogger, type JsonLoggerOptions } from "./json-logger.ts";

function linesOf(options: JsonLoggerOptions = {}) {
  const lines: string[] = [];
  const log = createJsonLogger({ clock: createVirtualClock(), write: (line) => lines.push(line), ...options });
  return { log, lines: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

test("writes lines of JSON from its level on, with the fields of its parents", () => {
  const { log, lines } = linesOf();
  log.debug({}, "too fine");
  log.child({ controller: "lamps" }).child({ name: "a" }).warn({ tries: 2 }, "it flickers");
  expect(lines()).toEqual([
    { time: "2026-01-01T00:00:00.000Z", level: "warn", controller: "lamps", name: "a", tries: 2, message: "it flickers" },
  ]);
});

test("writes debug lines if enabled, each with a newline", () => {
  const raw: string[] = [];
  const log = createJsonLogger({ level: "debug", write: (line) => raw.push(line), clock: createVirtualClock() });
  log.debug({}, "a\nb");
  expect(raw).toEqual(['{"time":"2026-01-01T00:00:00.000Z","level":"debug","message":"a\\nb"}\n']);
});

test("an error is written with name, message, stack, code and cause", () => {
  const { log, lines } = linesOf();
  const cause = new TypeError("no bulb");
  log.error({ err: Object.assign(new Error("dark", { cause }), { code: "Terminal" }) }, "failed");
  expect(lines()[0]?.["err"]).toMatchObject({
    name: "Error",
    message: "dark",
    code: "Terminal",
    stack: expect.stringContaining("json-logger.test.ts") as unknown,
    cause: { name: "TypeError", message: "no bulb" },
  });
});

test("fields that JSON cannot represent are dropped, the line is written", () => {
  const { log, lines } = linesOf();
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  log.info({ cycle }, "round");
  log.info({ size: 2n ** 60n }, "big");
  expect(lines()).toMatchObject([
    { message: "round", fields: expect.stringContaining("circular") as unknown },
    { size: "1152921504606846976" },
  ]);
});
