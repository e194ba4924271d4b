import { expect, it } from "vitest";
import { createLazyAbort } from "./lazy-abort.ts";

it("fires for signals read before the abort, and is aborted when read after it", () => {
  const early = createLazyAbort();
  const { signal } = early;
  expect(signal.aborted).toBe(false);
  early.abort(new Error("first"));
  early.abort(new Error("second"));
  expect(signal.reason).toEqual(new Error("first"));
  expect(early.signal).toBe(signal);

  const late = createLazyAbort();
  late.abort(new Error("first"));
  late.abort(new Error("second"));
  expect(late.signal.reason).toEqual(new Error("first"));
});
