import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { rotateIfLarge } from "./log-rotation.ts";
import { readLogTail } from "./log-tail.ts";

function inFolder<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "keelson-files-"));
  const clean = (): void => rmSync(folder, { recursive: true, force: true });
  const result = use(folder);
  if (result instanceof Promise) return result.finally(clean) as T;
  clean();
  return result;
}

test("rotates a log above its limit, keeps its end, and keeps no more files than allowed", () => {
  inFolder((folder) => {
    const log = join(folder, "stdout.log");
    for (const content of ["1".repeat(11), "2".repeat(11), `x${"3".repeat(29)}`, "4"]) {
      writeFileSync(log, content);
      expect(rotateIfLarge(log, { maxBytes: 10, maxFiles: 3 })).toBe(content.length > 10);
    }
    expect(readFileSync(log, "utf8")).toBe("4");
    expect(readFileSync(`${log}.1`, "utf8")).toBe("3".repeat(10));
    expect(readFileSync(`${log}.2`, "utf8")).toBe("2".repeat(10));
    expect(() => readFileSync(`${log}.3`)).toThrow("ENOENT");
  });
});

test("reads the tail of a log across the rotated file and starts at a whole character", async () => {
  await inFolder(async (folder) => {
    const log = join(folder, "stdout.log");
    writeFileSync(`${log}.1`, "12€");
    writeFileSync(log, "345");
    expect(await readLogTail(log, 100)).toBe("12€345");
    expect(await readLogTail(log, 6)).toBe("€345");
    expect(await readLogTail(log, 5)).toBe("345");
    expect(await readLogTail(join(folder, "none"), 5)).toBe("");
  });
});
