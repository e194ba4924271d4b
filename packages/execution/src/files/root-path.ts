import { lstatSync, readlinkSync } from "node:fs";
import { join } from "node:path";

/** Links that are followed on the way to a file, as in the kernel. */
const mostLinks = 40;

/**
 * The place on this machine of a path as it is inside `root`: links are followed as a program with that root would follow
 * them, absolute ones from `root`, and `..` never leads out of it. Parts that are missing are left as they are.
 *
 * **Errors**: throws where there are more than 40 links.
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
    if (++links > mostLinks) throw new Error(`${path}: too many symbolic links`);
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
