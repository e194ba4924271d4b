/*
 * `npm run check`: types (tests included), lint with the import rules, format, unused code, doc comments, prose, generated files and packages. With names as
 * arguments, only those steps: `node scripts/check.mjs types lint`.
 */
import { join } from "node:path";
import { build, fail, install, requireNode, root, step } from "./steps.mjs";

const bin = (name) => join(root, "node_modules/.bin", name);

const generators = [
  "packages/apiserver/scripts/generate-builtin-schemas.mjs",
  "packages/execution/scripts/generate-protobuf.mjs",
  "packages/middleware-agent/scripts/generate-protocol.mjs",
  "packages/sandbox/scripts/generate-protobuf.mjs",
  "scripts/generate-crds.mjs",
  "scripts/generate-docs.mjs",
  "scripts/generate-chart.mjs",
  "scripts/generate-python.mjs",
];

const steps = {
  types: () => step("types of tests", bin("tsc"), ["-p", "tsconfig.test.json"]),
  lint: () => step("lint", bin("oxlint"), ["--type-aware", "--deny-warnings"]),
  format: () => step("format", bin("biome"), ["format", "."]),
  unused: () => step("unused code", bin("knip"), ["--no-progress"]),
  documented: () => step("documented exports", process.execPath, ["scripts/check-documented.mjs"]),
  prose: () => step("prose", process.execPath, ["scripts/check-prose.mjs"]),
  generated: () => {
    for (const generator of generators) step(`up to date: ${generator}`, process.execPath, [generator, "--check"]);
  },
  packages: () => step("packages", process.execPath, ["scripts/check-packages.mjs"]),
};

/** Runs the named steps after installing and building. Default: all. */
export function check(names = Object.keys(steps)) {
  const unknown = names.filter((name) => !Object.hasOwn(steps, name));
  if (unknown.length > 0) fail(`unknown step ${unknown.join(", ")}: must be one of ${Object.keys(steps).join(", ")}`);
  requireNode();
  install();
  build();
  for (const name of names) steps[name]();
}

if (process.argv[1] === import.meta.filename) check(process.argv.length > 2 ? process.argv.slice(2) : undefined);
