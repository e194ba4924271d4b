/*
 * Records results of Kubernetes' end-to-end suite in packages/apiserver/testdata/kubernetes-conformance.json, from which
 * docs/reference/conformance.md is generated:
 *
 *   node scripts/record-conformance.mjs [--substitute-images] REPORT.json...
 *
 * Each report is the file of `e2e.test --ginkgo.json-report=REPORT.json`; later reports win. `--substitute-images` marks results that used
 * substitutes for the suite's container images. A failed test keeps the reason that the file gives for it.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { root } from "./steps.mjs";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { "substitute-images": { type: "boolean" } } });
const file = join(root, "packages/apiserver/testdata/kubernetes-conformance.json");
const recorded = JSON.parse(readFileSync(file, "utf8"));
const results = new Map(positionals.flatMap((path) => [...resultsOf(JSON.parse(readFileSync(path, "utf8")))]));
recorded.tests = recorded.tests.map((test) => {
  const found = results.get(test.name);
  if (found === undefined) return test;
  const images = values["substitute-images"] === true ? { images: "substitute" } : {};
  if (found.state === "passed") return { name: test.name, result: "passed", ...images };
  return { name: test.name, result: "failed", reason: test.reason ?? found.message, ...images };
});
recorded.lastRun = [...results.values()].reduce((last, { day }) => (day > last ? day : last), recorded.lastRun);
const { tests, ...rest } = recorded;
const lines = tests.map((test) => JSON.stringify(test)).join(",\n");
writeFileSync(file, `${JSON.stringify(rest).slice(0, -1)},"tests":[\n${lines}\n]}\n`);

/** The tests of a report that ran to their end, by name. */
function* resultsOf(suites) {
  for (const { SpecReports: specs } of suites) {
    for (const { LeafNodeType, ContainerHierarchyTexts: texts, LeafNodeText, State, Failure, EndTime } of specs) {
      if (LeafNodeType !== "It" || (State !== "passed" && State !== "failed")) continue;
      const name = [...(texts ?? []), LeafNodeText].join(" ").replace(/ \[Conformance\]$/, "");
      yield [name, { state: State, message: (Failure?.Message ?? "").split("\n")[0].slice(0, 160), day: EndTime.slice(0, 10) }];
    }
  }
}
