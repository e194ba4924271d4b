import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { loadOperators } from "../../operators.ts";
import { chartCases, namespace, objectsOf, renderCase, sorted, version } from "../../testing/chart-cases.ts";
import { chartFiles } from "./chart-files.ts";

const helm = process.env.HELM ?? "helm";
// A Helm that was built without version information assumes an old cluster.
const kubeVersion = ["--kube-version", "1.35.0"];
let operators: Awaited<ReturnType<typeof loadOperators>>;

beforeAll(async () => {
  operators = await loadOperators();
});

function chartFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), "chart-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  for (const [path, text] of chartFiles(operators, version)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
  return dir;
}

test.each(chartCases)("helm renders the objects of keelson install with %s", (_, source) => {
  const dir = chartFolder();
  const values = join(dir, "chosen.yaml");
  writeFileSync(values, stringify(source));
  const output = execFileSync(
    helm,
    ["template", "keelson", dir, "--namespace", namespace, "--values", values, ...kubeVersion],
    {
      encoding: "utf8",
      maxBuffer: 1 << 26,
    },
  );
  expect(sorted(objectsOf(output))).toEqual(renderCase(operators, source).objects);
});

test("helm lint accepts the chart, and the schema rejects unknown values", () => {
  const dir = chartFolder();
  expect(spawnSync(helm, ["lint", "--strict", ...kubeVersion, dir], { encoding: "utf8" })).toMatchObject({ status: 0 });
  const rejected = spawnSync(helm, ["template", dir, ...kubeVersion, "--set", "robots.replica=1"], { encoding: "utf8" });
  expect(rejected.stderr).toMatch(/replica/);
});
