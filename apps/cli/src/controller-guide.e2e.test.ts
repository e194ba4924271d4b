import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../../", import.meta.url));
const built = fileURLToPath(new URL("../dist/", import.meta.url));

/** A folder below the repository, so that the packages are found as the page's reader finds them. */
let dir: string;

beforeEach(() => {
  mkdirSync(built, { recursive: true });
  dir = mkdtempSync(join(built, "controller-guide-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** The files of a page by name, its blocks without a name among them. */
function blocks(page: string): ReadonlyMap<string, string> {
  const text = readFileSync(join(root, page), "utf8");
  const found = [...text.matchAll(/^```(ts|json)(?: file=(\S+))?\n([^]*?)^```$/gm)];
  return new Map(found.map(([, type, name, content = ""], index) => [name ?? `block-${index}.${type}`, content]));
}

/** What a program of Node.js prints; fails with it. */
async function output(...args: readonly string[]): Promise<string> {
  try {
    return (await run(process.execPath, args, { cwd: dir, env: { ...process.env, NO_COLOR: "1" } })).stdout;
  } catch (error) {
    throw new Error(`${args.join(" ")}: ${String((error as { stdout?: unknown }).stdout)}`, { cause: error });
  }
}

/** The program of a package, as `npx` runs it. */
function program(name: string, file: string): string {
  const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
  return join(dirname(manifest), file);
}

test("the guide's program passes the compiler and its tests, and prints its manifests; the packages' examples pass the compiler", async () => {
  const first = blocks("docs/write-a-controller.md");
  for (const name of ["tsconfig.json", "vitest.config.ts"]) writeFileSync(join(dir, name), first.get(name) ?? "");
  for (const [name, content] of blocks("docs/controller-guide.md")) writeFileSync(join(dir, name), content);
  for (const folder of readdirSync(join(root, "packages"))) {
    for (const [name, content] of blocks(join("packages", folder, "README.md")))
      writeFileSync(join(dir, `${folder}-${name}`), content);
  }
  await output(program("typescript", "bin/tsc"), "-p", ".");
  expect(await output(program("vitest", "vitest.mjs"), "run")).toMatch(/3 passed/);
  const { items } = JSON.parse(await output("dist/print-manifests.js")) as { items: readonly { kind: string }[] };
  expect(items.map(({ kind }) => kind)).toEqual([
    ...["CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role"],
    ...["RoleBinding", "Deployment"],
  ]);
});
