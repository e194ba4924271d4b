import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const page = readFileSync(fileURLToPath(new URL("../../../../docs/how-to/test-environment.md", import.meta.url)), "utf8");
const built = fileURLToPath(new URL("../../dist", import.meta.url));

test("runs the test that the page shows", async () => {
  const [, name = "", text = ""] = /^```ts file=(\S+)\n([^]*?)^```$/m.exec(page) ?? [];
  mkdirSync(built, { recursive: true });
  const dir = mkdtempSync(join(built, "test-environment-page-"));
  try {
    writeFileSync(join(dir, name), text);
    // Vitest ignores dist by default.
    writeFileSync(join(dir, "vitest.config.js"), 'export default { test: { include: ["*.test.ts"], exclude: [] } };');
    const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
    const env = { ...process.env, NO_COLOR: "1" };
    const { stdout } = await promisify(execFile)(process.execPath, [vitest, "run", "--root", dir], { cwd: dir, env });
    expect(stdout).toMatch(/Tests +2 passed/);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}, 120_000);
