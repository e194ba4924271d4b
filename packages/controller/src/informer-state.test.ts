import { deepFreeze, statusError } from "@keelson/api-machinery";
import { describe, expect, test } from "vitest";
import { initialInformerState, type InformerInput, type InformerState, stepInformer } from "./informer-state.ts";

const object = (name: string, resourceVersion?: string) =>
  deepFreeze({ apiVersion: "v1", kind: "X", metadata: resourceVersion === undefined ? { name } : { name, resourceVersion } });
const watching: InformerState = { kind: "watch", resourceVersion: "7" };
const failed = (error: unknown): InformerInput => ({ kind: "failed", error });
const tooLarge = statusError("Timeout", "Too large resource version: 7, current: 3", {
  causes: [{ reason: "ResourceVersionTooLarge" }],
});

describe("informer step", () => {
  test("gathers pages and replaces the store with all of them at the end", () => {
    const first = stepInformer(initialInformerState, {
      kind: "page",
      items: [object("a")],
      resourceVersion: "5",
      continue: "c",
    });
    expect(first).toMatchObject({ state: { kind: "list", continue: "c" }, next: "go" });
    expect(first.effect).toBeUndefined();
    const last = stepInformer(first.state, { kind: "page", items: [object("b")], resourceVersion: "5" });
    expect(last.state).toEqual({ kind: "watch", resourceVersion: "5" });
    expect(last.effect).toEqual({ kind: "replace", objects: [object("a"), object("b")] });
  });

  test("begins a list anew from the newest state when its continue token has expired", () => {
    const page = stepInformer(
      { kind: "list", notOlderThan: "7", received: [] },
      { kind: "page", items: [object("a")], resourceVersion: "5", continue: "c" },
    );
    expect(stepInformer(page.state, failed(statusError("Expired", "")))).toMatchObject({
      state: initialInformerState,
      next: "go",
    });
  });

  test("waits when even the newest state cannot be listed", () => {
    expect(stepInformer(initialInformerState, failed(statusError("Expired", "")))).toMatchObject({
      state: initialInformerState,
      next: "wait",
    });
    const list: InformerState = { kind: "list", notOlderThan: "7", continue: "c", received: [object("a")] };
    expect(stepInformer(list, failed(new Error("x")))).toMatchObject({
      state: { kind: "list", notOlderThan: "7", received: [] },
      next: "wait",
    });
  });

  test("moves on with every event and bookmark", () => {
    const event = stepInformer(watching, { kind: "event", event: { type: "MODIFIED", object: object("a", "9") } });
    expect(event).toEqual({
      state: { kind: "watch", resourceVersion: "9" },
      effect: { kind: "put", object: object("a", "9") },
      next: "stay",
    });
    const bookmark = stepInformer(event.state, { kind: "event", event: { type: "BOOKMARK", object: object("", "12") } });
    expect(bookmark).toEqual({ state: { kind: "watch", resourceVersion: "12" }, next: "stay" });
  });

  test.each([
    [
      "in-band",
      { kind: "event", event: { type: "ERROR", object: statusError("Expired", "").status } } as unknown as InformerInput,
    ],
    ["as the answer", failed(statusError("Gone", ""))],
  ])("lists anew, not older than where it stood, on a 410 %s", (_, input) => {
    expect(stepInformer(watching, input)).toMatchObject({
      state: { kind: "list", notOlderThan: "7", received: [] },
      next: "go",
    });
  });

  test("lists the newest state when the server is behind", () => {
    expect(stepInformer(watching, failed(tooLarge))).toMatchObject({ state: initialInformerState, next: "go" });
    expect(stepInformer({ kind: "list", notOlderThan: "7", received: [] }, failed(tooLarge))).toMatchObject({
      state: initialInformerState,
      next: "go",
    });
  });

  test("resumes where it stood after an end at once, and after a failure or a brief end with backoff", () => {
    expect(stepInformer(watching, { kind: "ended", brief: false })).toEqual({ state: watching, next: "go" });
    expect(stepInformer(watching, { kind: "ended", brief: true })).toEqual({ state: watching, next: "wait" });
    expect(stepInformer(watching, failed(statusError("InternalError", "")))).toMatchObject({ state: watching, next: "wait" });
  });

  test("lists anew when an event has no version to stand at", () => {
    expect(stepInformer(watching, { kind: "event", event: { type: "ADDED", object: object("a") } })).toMatchObject({
      state: initialInformerState,
      next: "wait",
    });
  });
});
