import { deepFreeze, type KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { createClient } from "@keelson/client";
import { beforeEach, describe, expect, test } from "vitest";
import type { EventsEventObject } from "@keelson/api-machinery/kinds";
import { createEventRecorder, type RunningEventRecorder } from "./event-recorder.ts";
import { silentLogger } from "../logging/logger.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";

let server: FakeApiServer;
let clock: VirtualClock;
let recorder: RunningEventRecorder;

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  const client = createClient({ transport: server, fieldManager: "test", clock });
  recorder = createEventRecorder({ client, clock, random: () => 0.5, log: silentLogger, controller: "robots" });
});

const about = (name = "r", namespace: string | undefined = "a"): KubernetesObject =>
  deepFreeze({
    apiVersion: "example.org/v1",
    kind: "Robot",
    metadata: { name, uid: `u-${name}`, resourceVersion: "7", ...(namespace === "" ? {} : { namespace }) },
  });
const stored = (): EventsEventObject[] => [...server.objects.values()] as EventsEventObject[];
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 50; turn++) await clock.advance(0);
};

describe("event recorder", () => {
  test("writes a valid events.k8s.io/v1 Event", async () => {
    recorder.event(about(), {
      type: "Warning",
      reason: "Broken",
      action: "Move",
      note: "an arm is loose",
      related: about("other"),
    });
    await settle();
    expect(stored()).toMatchObject([
      {
        apiVersion: "events.k8s.io/v1",
        kind: "Event",
        metadata: { namespace: "a", name: expect.stringMatching(/^r\.[0-9a-f]+$/) },
        eventTime: "2026-01-01T00:00:00.000000Z",
        reportingController: "robots",
        reportingInstance: "robots",
        type: "Warning",
        reason: "Broken",
        action: "Move",
        note: "an arm is loose",
        regarding: { apiVersion: "example.org/v1", kind: "Robot", namespace: "a", name: "r", uid: "u-r", resourceVersion: "7" },
        related: { name: "other" },
      },
    ]);
  });

  test("puts events about cluster-scoped objects in default", async () => {
    recorder.event(about("n", ""), { type: "Normal", reason: "Up", note: "" });
    await settle();
    expect(stored()[0]?.metadata.namespace).toBe("default");
  });

  test("counts the same event again as a series of the first, until six minutes have passed without it", async () => {
    const say = (): void => recorder.event(about(), { type: "Normal", reason: "Moved", note: "moved" });
    say();
    await settle();
    await clock.advance(60_000);
    say();
    say();
    await settle();
    expect(stored().map((event) => event.series)).toEqual([{ count: 3, lastObservedTime: "2026-01-01T00:01:00.000000Z" }]);
    await clock.advance(6 * 60_000 + 1);
    say();
    await settle();
    expect(stored().length).toBe(2);
  });

  test("aggregates more than ten events that differ in their note only", async () => {
    for (let count = 0; count < 15; count++) recorder.event(about(), { type: "Normal", reason: "Moved", note: `to ${count}` });
    await settle();
    const notes = stored().map((event) => event.note);
    expect(notes.length).toBe(11);
    expect(notes[10]).toBe("(combined from similar events): to 10");
    expect(stored()[10]?.series?.count).toBe(5);
  });

  test("sends a burst of at most 25 events about one object, then one every 300 s", async () => {
    const say = (reason: string): void => recorder.event(about(), { type: "Normal", reason, note: "x" });
    for (let count = 0; count < 40; count++) say(`Reason${count}`);
    recorder.event(about("other"), { type: "Normal", reason: "Reason", note: "x" });
    await settle();
    expect(stored().length).toBe(26);
    await clock.advance(300_000);
    say("LaterOne");
    say("LaterTwo");
    await settle();
    expect(stored().length).toBe(27);
  });

  test("cuts a long note at 1 kB without breaking a character", async () => {
    recorder.event(about(), { type: "Normal", reason: "Long", note: "ü".repeat(2000) });
    await settle();
    const note = stored()[0]?.note ?? "";
    expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1024);
    expect(note).toMatch(/^ü+\.\.\.$/);
  });

  test("never throws, retries after server errors, and drops a rejected event", async () => {
    const posts: number[] = [];
    server.intercept = (request) => {
      if (request.method !== "POST") return undefined;
      posts.push(clock.monotonic());
      return { status: posts.length < 3 ? 500 : 403, headers: {}, body: "" };
    };
    recorder.event(about(), { type: "Normal", reason: "Up", note: "" });
    await settle();
    await clock.advance(60_000);
    expect(posts).toEqual([0, 1000, 3000]);
  });

  test("sends pending events on stop, within its timeout", async () => {
    recorder.event(about(), { type: "Normal", reason: "Up", note: "" });
    await recorder.stop();
    expect(stored().length).toBe(1);
    expect(clock.pendingTimers).toBe(0);

    const client = createClient({ transport: server, fieldManager: "test", clock });
    const stuck = createEventRecorder({ client, clock, log: silentLogger, controller: "c" });
    server.intercept = () => ({ status: 500, headers: {}, body: "" });
    for (let count = 0; count < 20; count++) stuck.event(about(), { type: "Normal", reason: `Up${count}`, note: "" });
    let isStopped = false;
    const stopping = stuck.stop(5_000).then(() => (isStopped = true));
    await clock.advance(4_999);
    expect(isStopped).toBe(false);
    await clock.advance(1);
    await stopping;
    expect(clock.pendingTimers).toBe(0);
  });

  test("creates an event again when it repeats, if it could not be stored or has expired", async () => {
    const say = async (): Promise<void> => {
      recorder.event(about(), { type: "Normal", reason: "Moved", note: "moved" });
      await settle();
    };
    server.intercept = () => ({ status: 403, headers: {}, body: "" });
    await say();
    server.intercept = undefined;
    await say();
    expect(stored().length).toBe(1);
    server.objects.clear();
    await say();
    await say();
    expect(stored().map(({ series }) => series?.count)).toEqual([4]);
  });

  test("skips invalid events and events without an object, and records later ones", async () => {
    const bad = {
      type: "Normal",
      reason: "Bad",
      get note(): string {
        throw new Error("gone");
      },
    } as const;
    recorder.event(about(), bad);
    recorder.event(undefined as unknown as KubernetesObject, { type: "Normal", reason: "Bad", note: "" });
    recorder.event(about(), undefined as unknown as typeof bad);
    recorder.event(about(), { type: "Normal", reason: "Bad", note: 7 as unknown as string });
    recorder.event(about(), { type: "Normal", reason: "Good", note: "" });
    await settle();
    expect(stored().map(({ reason }) => reason)).toEqual(["Good"]);
  });

  test.each(["system:node", "Upper", `${"a".repeat(199)}.b`])(
    "an object named %s has events with their own names",
    async (name) => {
      recorder.event(about(name), { type: "Normal", reason: "Up", note: "" });
      await settle();
      expect(stored()).toMatchObject([
        { metadata: { name: expect.stringMatching(/^event\.[0-9a-f]+$/) }, regarding: { name } },
      ]);
    },
  );
});
