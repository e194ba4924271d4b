/*
 * Writes charts/keelson and deploy/keelson.yaml from the Operator values. With `--check` it writes nothing and fails if a file is stale,
 * missing or left over. Requires a build.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { chartFiles } from "../apps/cli/dist/install/chart/chart-files.js";
import { manifestFile } from "../apps/cli/dist/install/manifest-file.js";
import { loadOperators } from "../apps/cli/dist/operators.js";
import { root } from "./steps.mjs";

const isCheck = process.argv.includes("--check");
const { version } = JSON.parse(readFileSync(join(root, "apps/cli/package.json"), "utf8"));
const operators = await loadOperators();
const chart = join(root, "charts/keelson");
const files = new Map([...chartFiles(operators, version)].map(([path, text]) => [join(chart, path), text]));
files.set(join(root, "deploy/keelson.yaml"), manifestFile(operators, version));
const stale = [];

for (const [path, text] of files) {
  if (read(path) === text) continue;
  if (isCheck) stale.push(path);
  else {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}
for (const path of list(chart)) {
  if (files.has(path)) continue;
  if (isCheck) stale.push(path);
  else rmSync(path);
}
if (stale.length > 0) {
  const names = stale.map((path) => relative(root, path)).join(", ");
  console.error(`stale: ${names}; run node scripts/generate-chart.mjs after the build`);
  process.exitCode = 1;
}

function read(path) {
  return unlessAbsent(() => readFileSync(path, "utf8"), undefined);
}

function list(folder) {
  const entries = unlessAbsent(() => readdirSync(folder, { withFileTypes: true, recursive: true }), []);
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

function unlessAbsent(act, otherwise) {
  try {
    return act();
  } catch (error) {
    if (error.code === "ENOENT") return otherwise;
    throw error;
  }
}
