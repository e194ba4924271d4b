import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { copyNode, portableNode } from "./portable-node.ts";

test("copies a Node.js that starts with its own loader and libraries", () => {
  const folder = mkdtempSync(join(tmpdir(), "node-"));
  try {
    copyNode(folder);
    const [loader = "", ...args] = portableNode(folder);
    const listing = 'process.report.getReport().sharedObjects.filter((path) => path.startsWith("/"))';
    const output = execFileSync(loader, [...args, "-p", `JSON.stringify(${listing})`], { encoding: "utf8" });
    const loaded = JSON.parse(output) as string[];
    expect(loaded.length).toBeGreaterThan(3);
    expect(loaded.filter((path) => !path.startsWith(folder))).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
