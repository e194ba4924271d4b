/*
 * `npm run docs`: builds the documentation site with the API reference of every package, and fails on broken links. The site is in
 * tools/docs/.site/dist. `npm run docs -- --serve` then serves it on 127.0.0.1. Its tools have their own lock file, in tools/docs.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { markdownIn, rootPages } from "./pages.mjs";
import { build, fail, install, requireNode, root, run, step } from "./steps.mjs";

const tools = join(root, "tools/docs");
const site = join(tools, ".site");

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
const pages = markdownIn(site);
for (const page of pages) rewriteLinks(page);
const vitepress = join(tools, "node_modules/vitepress/bin/vitepress.js");
await step("site", process.execPath, [vitepress, "build", site], { cwd: tools });
for (const page of pages) requireBraces(page);
process.stdout.write(`${relative(root, join(site, "dist"))}\n`);
if (process.argv.includes("--serve"))
  process.exitCode = await run(process.execPath, [vitepress, "serve", site, "--host", "127.0.0.1"]);

/** Fails if `{{` of a page was evaluated, which can leave out text without an error. */
function requireBraces(page) {
  const html = join(site, "dist", relative(site, page).replace(/\.md$/, ".html"));
  const count = (path) => readFileSync(path, "utf8").split("{{").length - 1;
  if (count(html) < count(page)) fail(`${relative(site, page)}: {{ is missing in the site; see tools/docs/literal-braces.mjs`);
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
