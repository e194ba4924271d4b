/*
 * `npm run check`: types (tests included), lint with the import rules, format, unused code, doc comments, prose, documentation pages, generated files and packages. With names as
 * arguments, only those steps: `node scripts/check.mjs types lint`.
 */
import { join } from "node:path";
import { attempt, build, fail, install, requireNode, root } from "./steps.mjs";

const bin = (name) => join(root, "node_modules/.bin", name);

const generators = [
  "packages/apiserver/scripts/generate-builtin-schemas.mjs",
  "packages/execution/scripts/generate-protobuf.mjs",
  "packages/middleware-agent/scripts/generate-protocol.mjs",
  "packages/sandbox/scripts/generate-protobuf.mjs",
  "operators/testplane/scripts/generate-protobuf.mjs",
  "scripts/generate-crds.mjs",
  "scripts/generate-docs.mjs",
  "scripts/generate-chart.mjs",
  "scripts/generate-python.mjs",
];

const steps = {
  types: () => attempt("types of tests", bin("tsc"), ["-p", "tsconfig.test.json"]),
  lint: () => attempt("lint", bin("oxlint"), ["--type-aware", "--deny-warnings"]),
  format: () => attempt("format", bin("biome"), ["format", "."]),
  unused: () => attempt("unused code", bin("knip"), ["--no-progress"]),
  documented: () => attempt("documented exports", process.execPath, ["scripts/check-documented.mjs"]),
  prose: () => attempt("prose", process.execPath, ["scripts/check-prose.mjs"]),
  pages: () => attempt("documentation pages", process.execPath, ["scripts/check-pages.mjs"]),
  generated: async () => {
    for (const generator of generators) {
      const failure = await attempt(`up to date: ${generator}`, process.execPath, [generator, "--check"]);
      if (failure !== undefined) return failure;
    }
    return undefined;
  },
  packages: () => attempt("packages", process.execPath, ["scripts/check-packages.mjs"]),
};

/** Names of all steps. */
export const checkNames = Object.keys(steps);

/** Runs the named steps of built packages one after another. Resolves to the output of the first that fails, or to `undefined`. */
export async function check(names) {
  for (const name of names) {
    const failure = await steps[name]();
    if (failure !== undefined) return failure;
  }
  return undefined;
}

if (process.argv[1] === import.meta.filename) {
  const names = process.argv.length > 2 ? process.argv.slice(2) : checkNames;
  const unknown = names.filter((name) => !checkNames.includes(name));
  if (unknown.length > 0) fail(`unknown step ${unknown.join(", ")}: must be one of ${checkNames.join(", ")}`);
  requireNode();
  await install();
  await build();
  const failure = await check(names);
  if (failure !== undefined) fail(failure);
}
