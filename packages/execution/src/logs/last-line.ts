import { readFileSync } from "node:fs";

/** The last line of a file, shortened; empty where it cannot be read. */
export function lastLine(path: string): string {
  try {
    return (readFileSync(path, "utf8").trim().split("\n").at(-1) ?? "").slice(0, 300);
  } catch {
    return "";
  }
}
