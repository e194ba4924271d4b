import { expect, it } from "vitest";
import { ageSeconds, countBy, epochSeconds, maxBy } from "./operator-monitoring.ts";

it("counts by combination of labels", () => {
  const tasks = [{ state: "running" }, { state: "running" }, { state: undefined }];
  expect(countBy(tasks, ({ state }) => ({ namespace: "a", state }))).toEqual([
    { labels: { namespace: "a", state: "running" }, value: 2 },
    { labels: { namespace: "a", state: "" }, value: 1 },
  ]);
  expect(countBy([], () => ({}))).toEqual([]);
});

it("takes the maximum of what has a value", () => {
  const ages = [1, 5, undefined, 3];
  expect(
    maxBy(
      ages,
      () => ({ queue: "q" }),
      (age) => age,
    ),
  ).toEqual([{ labels: { queue: "q" }, value: 5 }]);
});

it("computes ages that are never negative", () => {
  const now = Date.UTC(2030, 0, 1, 0, 1);
  expect(["2030-01-01T00:00:00Z", "2030-01-01T00:02:00Z", "soon", undefined].map((time) => ageSeconds(time, now))).toEqual([
    ...[60, 0, undefined, undefined],
  ]);
  expect(["2030-01-01T00:01:00Z", "soon", undefined].map(epochSeconds)).toEqual([now / 1000, undefined, undefined]);
});
