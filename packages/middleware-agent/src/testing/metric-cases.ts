import { strict as assert } from "node:assert";
import type { ProgramMetric } from "../metrics/program-metric.ts";
import { assignPrimary, type PodCase, type Pods } from "./contract-steps.ts";

const namePattern = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;

/** Labels that the operator adds. */
const reserved = ["namespace", "app", "component", "group", "pod"];

/** The metrics of a Pod; undefined if its engine has none. */
async function metricsOf(pods: Pods, index: number): Promise<readonly ProgramMetric[] | undefined> {
  const families = await pods.at(index).engine.metrics?.();
  for (const { name, type, samples } of families ?? []) {
    assert.match(name, namePattern);
    assert.ok(type === "counter" || type === "gauge", `${name} is a counter or a gauge`);
    const series = samples.map(({ labels }) => JSON.stringify(Object.entries(labels).sort()));
    assert.equal(new Set(series).size, series.length, `${name} has each series once`);
    for (const { labels, value } of samples) {
      assert.equal(typeof value, "number", `${name} has numbers`);
      assert.deepEqual(
        reserved.filter((label) => label in labels),
        [],
        `${name} leaves the labels of Pods to the operator`,
      );
    }
  }
  const names = families?.map(({ name }) => name) ?? [];
  assert.equal(new Set(names).size, names.length, "each metric appears once");
  return families;
}

/** The metric that says whether the program answers, such as `redis_up`. */
function isUp(families: readonly ProgramMetric[]): number | undefined {
  return families.find(({ name }) => /^[a-z0-9]+_up$/.test(name))?.samples[0]?.value;
}

/** Cases of engines with metrics. Others pass them. */
export const metricCases: readonly PodCase[] = [
  {
    title: "reports metrics without a role and with one, and counters do not fall",
    pods: 1,
    async run(pods) {
      const isolated = await metricsOf(pods, 0);
      if (isolated === undefined) return;
      assert.notEqual(isUp(isolated), undefined, "a program that has no data yet may not run");
      await assignPrimary(pods, 0, 1);
      assert.equal(await pods.at(0).write("key"), true);
      const counters = new Map(
        isolated.flatMap(({ name, type, samples }) =>
          type === "counter" ? samples.map(({ labels, value }) => [name + JSON.stringify(labels), value] as const) : [],
        ),
      );
      const families = (await metricsOf(pods, 0)) ?? [];
      assert.equal(isUp(families), 1);
      for (const { name, samples } of families)
        for (const { labels, value } of samples)
          assert.ok(value >= (counters.get(name + JSON.stringify(labels)) ?? value), `the counter ${name} has fallen`);
    },
  },
  {
    title: "reports that a killed program does not respond",
    pods: 1,
    async run(pods) {
      if (pods.at(0).engine.metrics === undefined) return;
      await assignPrimary(pods, 0, 1);
      assert.equal(isUp((await metricsOf(pods, 0)) ?? []), 1);
      await pods.at(0).kill();
      assert.equal(isUp((await metricsOf(pods, 0)) ?? []), 0);
    },
  },
];
