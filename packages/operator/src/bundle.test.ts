import { mkdirSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { type BundleRecord, currentBundle } from "./bundle.ts";

/** A directory with the record of a bundle of one input. */
function bundled() {
  const dir = mkdtempSync(join(tmpdir(), "keelson-bundle-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const input = join(dir, "package/.tsbuildinfo");
  const bundles = join(dir, "bundle");
  for (const folder of [join(dir, "package"), bundles]) mkdirSync(folder);
  writeFileSync(input, "");
  const record: BundleRecord = { folder: "one", inputs: [["../package/.tsbuildinfo", statSync(input).mtimeMs]] };
  writeFileSync(join(bundles, "current.json"), JSON.stringify(record));
  return { input, url: pathToFileURL(`${bundles}/`) };
}

test("uses a bundle as long as its inputs are unchanged", () => {
  const { url } = bundled();
  expect(currentBundle(url, "main.js")).toBe(new URL("one/main.js", url).href);
});

test("ignores a bundle after a build, and one whose inputs are missing", () => {
  const { input, url } = bundled();
  utimesSync(input, 1, 1);
  expect(currentBundle(url, "main.js")).toBeUndefined();
  rmSync(input);
  expect(currentBundle(url, "main.js")).toBeUndefined();
});

test("finds no bundle in a directory without one", () => {
  expect(currentBundle(new URL("none/", import.meta.url), "main.js")).toBeUndefined();
});
