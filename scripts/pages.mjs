/* The Markdown pages that the documentation site consists of, next to those that are generated from the code. */
import { readdirSync } from "node:fs";
import { join } from "node:path";

/** Pages of the repository's root that the site includes. */
export const rootPages = ["CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"];

/** Paths of all Markdown pages in a directory and the directories below it. */
export function markdownIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".md"))
    .map((entry) => join(entry.parentPath, entry.name));
}
