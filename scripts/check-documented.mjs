/*
 * Checks that every exported symbol has a doc comment. The formatter puts each declaration at the start of a line, so the check reads lines
 * instead of syntax trees: the line before an exported declaration must end a `/** … *\/` comment. Overloads share the first one's comment;
 * re-exports (`export { … } from`) are documented where they are declared.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { root } from "./steps.mjs";

const declaration = /^export (?:declare |abstract |async )*(?:function\*?|class|const|let|interface|type|enum|namespace) (\w+)/;

const listed = spawnSync(
  "git",
  ["ls-files", "-co", "--exclude-standard", "--", "packages/*/src/*.ts", "operators/*/src/*.ts", "apps/*/src/*.ts"],
  {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 1 << 26,
  },
);
if (listed.status !== 0) {
  // A source archive has no index to ask.
  process.stdout.write("documentation: skipped outside a git checkout\n");
  process.exit(0);
}

const findings = listed.stdout
  .split("\n")
  .filter((file) => file !== "" && !/\.(test|bench|generated)\.ts$|\/(generated|testdata)\//.test(file))
  .filter((file) => existsSync(join(root, file)))
  .flatMap((file) => findUndocumented(readFileSync(join(root, file), "utf8")).map((finding) => `${file}:${finding}`));
if (findings.length > 0) {
  writeSync(2, `${findings.join("\n")}\n${findings.length} exported symbols without a doc comment; see CONTRIBUTING.md\n`);
  process.exitCode = 1;
}

/** Exported declarations of a source text without a doc comment, each as `LINE: NAME`. */
function findUndocumented(text) {
  const lines = text.split("\n");
  const documented = new Set();
  return lines.flatMap((line, index) => {
    const name = declaration.exec(line)?.[1];
    if (name === undefined || documented.has(name)) return [];
    const isDocumented = isDocCommentEnd(lines, index - 1);
    if (isDocumented) documented.add(name);
    return isDocumented ? [] : [`${index + 1}: ${name}`];
  });
}

/** Whether a doc comment ends on this line. A linter directive may stand between it and the declaration. */
function isDocCommentEnd(lines, index) {
  let at = index;
  while (/^\/\/ (oxlint|biome)-/.test(lines[at] ?? "")) at--;
  if (!lines[at]?.endsWith("*/")) return false;
  while (at >= 0 && !/^\s*\/\*/.test(lines[at])) at--;
  return /^\s*\/\*\*/.test(lines[at] ?? "");
}
