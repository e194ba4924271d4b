import type { AlertGroup } from "@keelson/operator/monitoring";
import { parse } from "yaml";
import { expect, it } from "vitest";
import { loadOperators } from "../operators.ts";
import { monitoringFiles } from "./monitoring-files.ts";

it("uses only metrics that the operator exports, and shows all of its own", async () => {
  const operators = await loadOperators();
  const files = monitoringFiles(operators);
  expect(operators.flatMap(({ monitoring }) => Object.keys(monitoring?.metrics ?? {})).length).toBeGreaterThan(10);
  for (const { name, monitoring } of operators) {
    // Middleware's metrics come from its agents. Its own tests compare them.
    if (name === "middleware") continue;
    const own = Object.keys(monitoring?.metrics ?? {});
    const used = (text = "") => [...new Set(text.match(new RegExp(`keelson_${name}_\\w+`, "g")))];
    const dashboard = used(files.get(`${name}-dashboard.json`));
    const alerts = used(files.get(`${name}-alerts.yaml`));
    expect(dashboard.toSorted()).toEqual(own.toSorted());
    expect(alerts.length).toBeGreaterThan(0);
    expect(alerts.filter((each) => !own.includes(each))).toEqual([]);
  }
});

it("names every alert once, with a summary of one line", async () => {
  const files = monitoringFiles(await loadOperators());
  const groups = [...files]
    .filter(([name]) => name.endsWith("-alerts.yaml"))
    .flatMap(([, text]) => (parse(text) as { groups: AlertGroup[] }).groups);
  const rules = groups.flatMap((group) => group.rules);
  const names = rules.map(({ alert }) => alert);
  expect(new Set(names).size).toBe(names.length);
  for (const { annotations } of rules) expect(annotations.summary).toMatch(/^\S.*[^.\s]$/);
});
