import type { JsonValue } from "@keelson/api-machinery";
import { beforeAll, expect, test } from "vitest";
import { parseTemplate } from "../../../../../operators/middleware/src/template/parse-template.ts";
import { renderTemplate } from "../../../../../operators/middleware/src/template/render-template.ts";
import { loadOperators } from "../../operators.ts";
import { chartCases, namespace, objectsOf, renderCase, sorted, version } from "../../testing/chart-cases.ts";
import { chartFiles } from "./chart-files.ts";

let operators: Awaited<ReturnType<typeof loadOperators>>;
let files: ReadonlyMap<string, string>;

beforeAll(async () => {
  operators = await loadOperators();
  files = chartFiles(operators, version);
});

test.each(chartCases)("the chart renders the objects of keelson install with %s", (_, source) => {
  const { values, objects } = renderCase(operators, source);
  const rendered = [...files]
    .filter(([path]) => /^templates\/.*\.yaml$/.test(path))
    .flatMap(([path, text]) => {
      const data = { Values: values, Release: { Namespace: namespace }, Chart: { AppVersion: version } };
      return objectsOf(renderTemplate(parseTemplate(path, text, text.length), data));
    });
  expect(sorted(rendered)).toEqual(objects);
});

test("documents every value, with its default", () => {
  const page = files.get("README.md") ?? "";
  expect(page).toContain("| `robots.replicas` | `1` | 0 or 1: the embedded MQTT broker runs on the leader");
  expect(page).not.toMatch(/\| `[^`]+` \| `[^`]*` \| \|/);
});

test("grants each operator the rules that it declares, and nothing else", () => {
  const { objects } = renderCase(operators, { metrics: { enabled: false } });
  for (const operator of operators) {
    const role = objects.find((object) => {
      const { kind, metadata } = object as { kind: string; metadata: { name: string } };
      return kind === "ClusterRole" && metadata.name === `keelson:${operator.name}`;
    });
    const { rules } = role as { rules: { resources: string[] }[] };
    const { length } = operator.rules;
    expect(rules.slice(0, length)).toEqual(operator.rules);
    const registered = operator.webhooks === undefined ? [] : [["validatingwebhookconfigurations"]];
    expect(rules.slice(length).map(({ resources }) => resources)).toEqual([["events"], ...registered]);
  }
});

test("exposes the server of robots exec only if a value says so, in its own Service", () => {
  const texts = (exec: JsonValue): readonly string[] =>
    renderCase(operators, { robots: { exec } }).objects.map((object) => JSON.stringify(object));
  const found = (exec: JsonValue, text: string): number => texts(exec).filter((object) => object.includes(text)).length;
  const marks = ["keelson-robots-exec", "--exec-port=8443", "--exec-bind-address=", '"ports":[{"protocol":"TCP","port":8443}]'];
  expect(marks.map((text) => found({}, text))).toEqual([0, 0, 0, 0]);
  expect(marks.map((text) => found({ enabled: true }, text))).toEqual([1, 1, 1, 1]);
});
