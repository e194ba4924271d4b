import { lstatSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { ExecutionError } from "../driver.ts";

/** The kernel's limit of symbolic links in one path. */
const maxLinks = 40;

/**
 * Translates a path inside `root` to a path on this machine. Symbolic links are resolved as for a program with that root: absolute ones
 * from `root`, and `..` never leaves it. Missing components are kept.
 *
 * Not safe against a process that changes links concurrently; see `openBeneath` for that.
 *
 * **Errors**: `InvalidSpec` after more than 40 links.
 */
export function pathInRoot(root: string, path: string): string {
  const waiting = path.split("/").reverse();
  const walked: string[] = [];
  for (let links = 0; waiting.length > 0; ) {
    const part = waiting.pop() ?? "";
    if (part === "" || part === ".") continue;
    if (part === "..") {
      walked.pop();
      continue;
    }
    const target = linkTarget(join(root, ...walked, part));
    if (target === undefined) {
      walked.push(part);
      continue;
    }
    if (++links > maxLinks) throw new ExecutionError("InvalidSpec", `${path}: too many symbolic links`);
    if (target.startsWith("/")) walked.length = 0;
    waiting.push(...target.split("/").reverse());
  }
  return join(root, ...walked);
}

function linkTarget(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined;
  } catch {
    return undefined;
  }
}
