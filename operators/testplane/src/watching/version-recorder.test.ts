import { expect, it } from "vitest";
import { VersionRecorder } from "./version-recorder.ts";

const version = (index: number) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", generation: index } });

it("hands every reader the versions since its last call", () => {
  const recorder = new VersionRecorder<ReturnType<typeof version>>();
  recorder.add("a", version(0));
  expect(recorder.take("ns/t:x", "a")).toEqual([]);
  recorder.add("a", version(1));
  recorder.add("b", version(2));
  expect(recorder.take("ns/t:y", "a")).toEqual([]);
  recorder.add("a", undefined);
  expect(recorder.take("ns/t:x", "a")).toEqual([version(1), undefined]);
  expect(recorder.take("ns/t:x", "a")).toEqual([]);
  expect(recorder.take("ns/t:y", "a")).toEqual([undefined]);
});

it("keeps the newest 100 versions, and none for a test that is forgotten", () => {
  const recorder = new VersionRecorder<ReturnType<typeof version>>();
  recorder.take("ns/t:x", "a");
  recorder.take("ns/t2:x", "a");
  for (let index = 0; index < 150; index++) recorder.add("a", version(index));
  recorder.forget("ns/t");
  expect(recorder.take("ns/t:x", "a")).toEqual([]);
  const kept = recorder.take("ns/t2:x", "a");
  expect([kept.length, kept[0], kept[99]]).toEqual([100, version(50), version(149)]);
});
