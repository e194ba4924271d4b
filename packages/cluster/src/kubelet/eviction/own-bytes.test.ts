import { expect, test } from "vitest";
import type { Measurement } from "./disk-usage.ts";
import { formatOwnBytes, measureOwnBytes, parseOwnBytes } from "./own-bytes.ts";

const none: Measurement["measured"] = new Map();

test("what the node wrote is kept in a marker", async () => {
  const bytes = await measureOwnBytes(() => Promise.resolve({ measured: new Map([["/r", { bytes: 4096, tookMs: 1 }]]) }), "/r");
  expect(parseOwnBytes(formatOwnBytes(bytes))).toBe(4096);
});

test("what the node wrote is unknown if du is missing or fails", async () => {
  expect(await measureOwnBytes(() => Promise.reject(new Error("spawn timeout ENOENT")), "/r")).toBeUndefined();
  const failure = { paths: ["/r"], reason: "exit code 127" };
  const bytes = await measureOwnBytes(() => Promise.resolve({ measured: none, failure }), "/r");
  expect(bytes).toBeUndefined();
  expect(parseOwnBytes(formatOwnBytes(bytes))).toBeUndefined();
});

test("an image with too many files counts for its Pod", async () => {
  expect(await measureOwnBytes(() => Promise.resolve({ measured: none, slowest: "/r" }), "/r")).toBe(0);
});
