import { deepFreeze, statusError } from "@keelson/api-machinery";
import { describe, expect, test } from "vitest";
import {
  initialInformerState,
  type InformerInput,
  type InformerState,
  type InformerStep,
  initialStreamState,
  stepInformer,
} from "./informer-state.ts";

const object = (name: string, resourceVersion?: string) =>
  deepFreeze({ apiVersion: "v1", kind: "X", metadata: resourceVersion === undefined ? { name } : { name, resourceVersion } });
const watching: InformerState = { kind: "watch", resourceVersion: "7" };
const failed = (error: unknown): InformerInput => ({ kind: "failed", error });
const tooLarge = statusError("Timeout", "Too large resource version: 7, current: 3", {
  causes: [{ reason: "ResourceVersionTooLarge" }],
});

describe("informer step", () => {
  test("collects pages and replaces the store at the end", () => {
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

  test("restarts a list from the newest state when its continue token has expired", () => {
    const page = stepInformer(
      { kind: "list", notOlderThan: "7", received: [] },
      { kind: "page", items: [object("a")], resourceVersion: "5", continue: "c" },
    );
    expect(stepInformer(page.state, failed(statusError("Expired", "")))).toMatchObject({
      state: initialInformerState,
      next: "go",
    });
  });

  test("waits if even the newest state cannot be listed", () => {
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

  test("advances with every event and bookmark", () => {
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
  ])("relists, not older than its version, after a 410 %s", (_, input) => {
    expect(stepInformer(watching, input)).toMatchObject({
      state: { kind: "list", notOlderThan: "7", received: [] },
      next: "go",
    });
  });

  test("lists the newest state if the server is behind", () => {
    expect(stepInformer(watching, failed(tooLarge))).toMatchObject({ state: initialInformerState, next: "go" });
    expect(stepInformer({ kind: "list", notOlderThan: "7", received: [] }, failed(tooLarge))).toMatchObject({
      state: initialInformerState,
      next: "go",
    });
  });

  test("resumes at its version, immediately after a regular end, with backoff after a failure or a brief watch", () => {
    expect(stepInformer(watching, { kind: "ended", brief: false })).toEqual({ state: watching, next: "go" });
    expect(stepInformer(watching, { kind: "ended", brief: true })).toEqual({ state: watching, next: "wait" });
    expect(stepInformer(watching, failed(statusError("InternalError", "")))).toMatchObject({ state: watching, next: "wait" });
  });

  test("relists if an event has no version", () => {
    expect(stepInformer(watching, { kind: "event", event: { type: "ADDED", object: object("a") } })).toMatchObject({
      state: initialInformerState,
      next: "wait",
    });
  });
});

describe("informer step of a stream", () => {
  const event = (type: "ADDED" | "MODIFIED" | "DELETED", name: string, version: string): InformerInput => ({
    kind: "event",
    event: { type, object: object(name, version) },
  });
  const mark = (resourceVersion: string, annotations?: Record<string, string>): InformerInput => ({
    kind: "event",
    event: { type: "BOOKMARK", object: { metadata: { resourceVersion, ...(annotations ? { annotations } : {}) } } as never },
  });
  const end = (resourceVersion: string): InformerInput => mark(resourceVersion, { "k8s.io/initial-events-end": "true" });
  const steps = (state: InformerState, ...inputs: readonly InformerInput[]): InformerStep =>
    inputs.reduce<InformerStep>((step, input) => stepInformer(step.state, input), { state, next: "stay" });
  const from: InformerState = { kind: "stream", notOlderThan: "7", streams: true };

  test("collects the initial state and replaces the store at the bookmark, on the same watch", () => {
    const gathered = [event("ADDED", "a", "3"), event("ADDED", "b", "2"), event("ADDED", "c", "4")];
    const changed = [event("MODIFIED", "a", "6"), event("DELETED", "c", "7"), mark("6")];
    const before = steps(initialStreamState, ...gathered, ...changed);
    expect(before).toMatchObject({ state: { kind: "stream" }, next: "stay" });
    expect(before.effect).toBeUndefined();
    expect(stepInformer(before.state, end("8"))).toEqual({
      state: { kind: "watch", resourceVersion: "8", streams: true },
      effect: { kind: "replace", objects: [object("b", "2"), object("a", "6")] },
      next: "stay",
    });
    // No step changed the state that it was given.
    expect(steps(initialStreamState, ...gathered, end("5")).effect).toEqual({
      kind: "replace",
      objects: [object("a", "3"), object("b", "2"), object("c", "4")],
    });
  });

  test("streams again, not older than its version, after a compaction", () => {
    const expired = steps(initialStreamState, end("7"), failed(statusError("Expired", "")));
    expect(expired).toMatchObject({ state: from, next: "go" });
    expect(stepInformer(expired.state, failed(statusError("Expired", "")))).toMatchObject({
      state: initialStreamState,
      next: "go",
    });
    expect(stepInformer(from, failed(tooLarge))).toMatchObject({ state: initialStreamState, next: "go" });
  });

  test.each(["BadRequest", "Invalid", "MethodNotAllowed", "NotAcceptable"] as const)(
    "lists permanently if the server rejects the stream with %s",
    (reason) => {
      const list = { state: { kind: "list", notOlderThan: "7", received: [] }, next: "go" };
      expect(stepInformer(from, failed(statusError(reason, "no streams here")))).toEqual(list);
      const inBand = { kind: "event", event: { type: "ERROR", object: statusError(reason, "").status } } as never;
      expect(stepInformer(from, inBand)).toEqual(list);
    },
  );

  test("lists permanently if the stream times out, and once if it ends early", () => {
    expect(steps(from, event("ADDED", "a", "3"), { kind: "silent" })).toEqual({
      state: { kind: "list", notOlderThan: "7", received: [] },
      next: "go",
    });
    const ended = steps(from, event("ADDED", "a", "3"), { kind: "ended", brief: false });
    expect(ended).toEqual({ state: { kind: "list", notOlderThan: "7", received: [], streams: true }, next: "go" });
    const watching = stepInformer(ended.state, { kind: "page", items: [], resourceVersion: "9" });
    expect(stepInformer(watching.state, failed(statusError("Expired", ""))).state).toEqual({ ...from, notOlderThan: "9" });
    expect(stepInformer(from, { kind: "ended", brief: true }).next).toBe("wait");
  });

  test("discards the collected state and waits if it breaks", () => {
    const broken = steps(initialStreamState, event("ADDED", "a", "3"), failed(new Error("cut")));
    expect(broken).toMatchObject({ state: initialStreamState, next: "wait" });
    expect(steps(broken.state, end("4")).effect).toEqual({ kind: "replace", objects: [] });
  });
});
