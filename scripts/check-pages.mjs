/*
 * Finds what fails the build of the documentation site (`npm run docs`), in a fraction of its time: HTML elements outside code, which the site
 * compiles as components, and links to missing files. Braces need no check: tools/docs/literal-braces.mjs makes them literal.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { markdownIn, rootPages } from "./pages.mjs";
import { fail, root } from "./steps.mjs";

const pages = [...markdownIn(join(root, "docs")), ...rootPages.map((page) => join(root, page))];
const findings = pages.flatMap((page) => findingsOf(page, readFileSync(page, "utf8")));
if (findings.length > 0) fail(findings.join("\n"));

function findingsOf(page, text) {
  const prose = withoutCode(text);
  const at = (index, message) => `${relative(root, page)}:${prose.slice(0, index).split("\n").length}: ${message}`;
  const elements = [...prose.matchAll(/<\/?[A-Za-z][\w-]*(?=[\s/>])/g)].map(({ 0: tag, index }) =>
    at(index, `${tag}> is HTML: write it as code, or escape it as \\${tag}>`),
  );
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .filter(([, target]) => !/^[a-z]+:|^#/.test(target) && !existsSync(join(dirname(page), target.replace(/#.*/, ""))))
    .map(({ 1: target, index }) => at(index, `${target} not found`));
  return [...elements, ...links];
}

/** The text with code and comments blanked, so that positions stay the same. */
function withoutCode(text) {
  const blank = (code) => code.replaceAll(/[^\n]/g, " ");
  return text
    .replaceAll(/^([ \t]*)(`{3,}|~{3,}).*\n(?:.*\n)*?[ \t]*\2.*$/gm, blank)
    .replaceAll(/<!--[\s\S]*?-->/g, blank)
    .replaceAll(/(?<!`)(`+)(?!`)(?:[^\n]|\n(?!\n))*?(?<!`)\1(?!`)/g, blank);
}
