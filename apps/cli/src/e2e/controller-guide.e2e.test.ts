import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { output, tsc, vitest } from "../testing/tools.ts";

const root = fileURLToPath(new URL("../../../..", import.meta.url));
const built = fileURLToPath(new URL("../../dist", import.meta.url));

/** A directory inside the repository, so that imports resolve as they do for a reader. */
let dir: string;

beforeEach(() => {
  mkdirSync(built, { recursive: true });
  dir = mkdtempSync(join(built, "controller-guide-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** Code blocks of a page by file name; unnamed blocks are numbered. */
function blocks(page: string): ReadonlyMap<string, string> {
  const text = readFileSync(join(root, page), "utf8");
  const found = [...text.matchAll(/^```(ts|json)(?: file=(\S+))?\n([^]*?)^```$/gm)];
  return new Map(found.map(([, type, name, content = ""], index) => [name ?? `block-${index}.${type}`, content]));
}

test("compiles and tests the guide's program, prints its manifests, and compiles the examples of all packages", async () => {
  const first = blocks("docs/tutorials/write-a-controller.md");
  for (const name of ["tsconfig.json", "vitest.config.ts"]) writeFileSync(join(dir, name), first.get(name) ?? "");
  for (const [name, content] of blocks("docs/how-to/controller-guide.md")) writeFileSync(join(dir, name), content);
  for (const folder of readdirSync(join(root, "packages"))) {
    for (const [name, content] of blocks(join("packages", folder, "README.md")))
      writeFileSync(join(dir, `${folder}-${name}`), content);
  }
  await output(dir, tsc, "-p", ".");
  expect(await output(dir, vitest, "run")).toMatch(/3 passed/);
  const { items } = JSON.parse(await output(dir, "dist/print-manifests.js")) as { items: readonly { kind: string }[] };
  expect(items.map(({ kind }) => kind)).toEqual([
    ...["CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role"],
    ...["RoleBinding", "Deployment"],
  ]);
});
