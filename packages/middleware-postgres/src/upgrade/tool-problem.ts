import { readFile } from "node:fs/promises";
import type { ToolResult } from "../server/run-tool.ts";

const maxLength = 1_000;
const maxLinesOfFile = 5;

/**
 * Why `pg_upgrade` failed: what follows its failed check, with the first lines of the files that it names. They are in a directory that is removed.
 */
export async function upgradeProblem({ stdout, stderr }: Pick<ToolResult, "stdout" | "stderr">): Promise<string> {
  const lines = `${stdout}\n${stderr}`.split("\n").map((line) => line.trim());
  const relevant = lines
    .slice(lines.findLastIndex((line) => /\bok$/.test(line)) + 1)
    .map((line) => line.replace(/\s*\bfatal$/, ""))
    .filter((line) => line !== "" && line !== "Failure, exiting" && !/^[-*]/.test(line));
  const files = relevant.map((line) => /^\/\S+\.txt$/.exec(line)?.[0]).filter((path) => path !== undefined);
  const details = await Promise.all(files.map(firstLinesOf));
  const text = [...relevant.filter((line) => !/^\/\S+\.txt$/.test(line)), ...details.flat()].join("; ");
  return text.slice(0, maxLength);
}

async function firstLinesOf(path: string): Promise<readonly string[]> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .slice(0, maxLinesOfFile);
}
