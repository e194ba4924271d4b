/*
 * Writes charts/keelson, deploy/keelson.yaml and deploy/monitoring from the Operator values. With `--check` it writes nothing and fails if a file is stale,
 * missing or left over. Requires a build.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chartFiles } from "../apps/cli/dist/install/chart/chart-files.js";
import { monitoringFiles } from "../apps/cli/dist/install/monitoring-files.js";
import { manifestFile } from "../apps/cli/dist/install/manifest-file.js";
import { loadOperators } from "../apps/cli/dist/operators.js";
import { GeneratedFiles } from "./generated-files.mjs";
import { root } from "./steps.mjs";

const { version } = JSON.parse(readFileSync(join(root, "apps/cli/package.json"), "utf8"));
const operators = await loadOperators();
const files = new GeneratedFiles();

for (const [path, text] of chartFiles(operators, version)) files.write(`charts/keelson/${path}`, text);
files.removeOthers("charts/keelson");
for (const [path, text] of monitoringFiles(operators)) files.write(`deploy/monitoring/${path}`, text);
files.removeOthers("deploy/monitoring");
files.write("deploy/keelson.yaml", manifestFile(operators, version));
files.finish("generate-chart.mjs");
