/* `npm run check`: types (tests included), lint with the import rule of the house, format, generated files fresh, packages complete. */
import { join } from "node:path";
import { build, install, requireNode, root, step } from "./steps.mjs";

requireNode();
install();
build();
const bin = (name) => join(root, "node_modules/.bin", name);
step("types of tests", bin("tsc"), ["-p", "tsconfig.test.json"]);
step("lint", bin("oxlint"), ["--type-aware", "--deny-warnings"]);
step("format", bin("biome"), ["format", "."]);
const generators = [
  "packages/apiserver/scripts/generate-builtin-schemas.mjs",
  "packages/execution/scripts/generate-protobuf.mjs",
  "operators/middleware/scripts/generate-protocol.mjs",
  "operators/sandboxes/scripts/generate-protobuf.mjs",
  "scripts/generate-crds.mjs",
];
for (const generator of generators) {
  step(`fresh: ${generator}`, process.execPath, [generator, "--check"]);
}
step("packages", process.execPath, ["scripts/check-packages.mjs"]);
