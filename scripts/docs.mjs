/*
 * `npm run docs`: builds the documentation site with the API reference of every package, and fails on broken links. The site is in
 * tools/docs/.site/dist. `npm run docs -- --serve` then serves it on 127.0.0.1. Its tools have a lock file of their own, in tools/docs.
 */
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { build, install, requireNode, root, run, step } from "./steps.mjs";

const tools = join(root, "tools/docs");
const site = join(tools, ".site");
/** Pages of the repository's root that the site includes. */
const rootPages = ["CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"];

requireNode();
await install();
await build();
await install(tools, "install documentation tools");
await step("up to date: scripts/generate-docs.mjs", process.execPath, ["scripts/generate-docs.mjs", "--check"]);

rmSync(site, { recursive: true, force: true });
mkdirSync(join(site, ".vitepress"), { recursive: true });
cpSync(join(root, "docs"), site, { recursive: true });
cpSync(join(tools, "config.mjs"), join(site, ".vitepress/config.mjs"));
for (const page of rootPages) cpSync(join(root, page), join(site, page));
await step("API reference", process.execPath, [join(tools, "api-reference.mjs"), join(site, "api")], { cwd: tools });
for (const page of pages(site)) rewriteLinks(page);
const vitepress = join(tools, "node_modules/vitepress/bin/vitepress.js");
await step("site", process.execPath, [vitepress, "build", site], { cwd: tools });
process.stdout.write(`${relative(root, join(site, "dist"))}\n`);
if (process.argv.includes("--serve"))
  process.exitCode = await run(process.execPath, [vitepress, "serve", site, "--host", "127.0.0.1"]);

function pages(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".md"))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** The site's root is docs/, to which the pages of the repository's root move: adapts links between the two. */
function rewriteLinks(page) {
  const text = readFileSync(page, "utf8");
  const isRootPage = rootPages.some((name) => page === join(site, name));
  const rewritten = isRootPage
    ? text.replaceAll("](docs/", "](./")
    : text.replace(/\]\((?:\.\.\/)+([A-Z_]+\.md)/g, (whole, name) => (rootPages.includes(name) ? `](/${name}` : whole));
  if (rewritten !== text) writeFileSync(page, rewritten);
}
