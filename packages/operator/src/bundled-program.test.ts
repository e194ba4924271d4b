import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { loadBundledProgram } from "./bundled-program.ts";

interface Exports {
  readonly greeting: string;
  readonly url: string;
  readonly modules: number;
}

const files = {
  "main.cjs": `
    const { greet } = require("./greet.cjs");
    exports.greeting = greet("world");
    exports.url = bundleScope.url("../dist/main.js");
    exports.modules = require("node:module").builtinModules.length;
  `,
  "greet.cjs": `exports.greet = (name) => "hello " + name;`,
};

/** A bundle of two files, in its own directory. */
function bundled() {
  const dir = mkdtempSync(join(tmpdir(), "keelson-bundled-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const bundle = join(dir, "bundle");
  mkdirSync(bundle);
  for (const [name, source] of Object.entries(files)) writeFileSync(join(bundle, name), source);
  const code = (): string[] => readdirSync(bundle).filter((name) => name.startsWith("code-"));
  return {
    dir: bundle,
    load: () => loadBundledProgram<Exports>(pathToFileURL(join(bundle, "main.cjs")), "test"),
    code,
    codeFile: () => join(bundle, code()[0] ?? ""),
  };
}

/** How V8 got the code of each file that is compiled from here on. */
function compilations(): string[] {
  const found: string[] = [];
  const Script = vm.Script;
  vi.spyOn(vm, "Script").mockImplementation(function (source: string, options?: ConstructorParameters<typeof vm.Script>[1]) {
    const script = new Script(source, options);
    found.push(script.cachedDataRejected === false ? "stored" : "compiled");
    return script;
  } as never);
  return found;
}

afterEach(() => vi.restoreAllMocks());

test("runs the files of a bundle, which find modules and files alongside it", () => {
  const { dir, load } = bundled();
  const { greeting, url, modules } = load().exports;
  expect(greeting).toBe("hello world");
  expect(url).toBe(pathToFileURL(join(dir, "../dist/main.js")).href);
  expect(modules).toBeGreaterThan(10);
});

test("uses the code that an earlier process has kept", async () => {
  const { load, code } = bundled();
  const found = compilations();
  const first = load();
  expect(code()).toEqual([]);
  await first.keepCompiledCode();
  expect(load().exports.greeting).toBe("hello world");
  expect(found).toEqual(["compiled", "compiled", "stored", "stored"]);
});

test("writes code only if some was missing, and adds it to the rest", async () => {
  const { dir, load, codeFile } = bundled();
  await loadBundledProgram(pathToFileURL(join(dir, "greet.cjs")), "test").keepCompiledCode();
  const found = compilations();
  await load().keepCompiledCode();
  const written = readFileSync(codeFile());
  await load().keepCompiledCode();
  expect(found).toEqual(["compiled", "stored", "stored", "stored"]);
  expect(readFileSync(codeFile())).toEqual(written);
});

test("writes a file that no other user can change, whatever the umask", async () => {
  const { load, codeFile } = bundled();
  const umask = process.umask(0);
  try {
    await load().keepCompiledCode();
  } finally {
    process.umask(umask);
  }
  expect(statSync(codeFile()).mode & 0o777).toBe(0o644);
});

test("compiles again what is damaged, and repairs it", async () => {
  const { load, codeFile } = bundled();
  await load().keepCompiledCode();
  const intact = readFileSync(codeFile());
  for (const damage of [
    () => truncateSync(codeFile(), intact.length - 1),
    () => truncateSync(codeFile(), 10),
    () => writeFileSync(codeFile(), ""),
    () => writeFileSync(codeFile(), Buffer.alloc(100, 0xff)),
    () => writeFileSync(codeFile(), Buffer.concat([intact.subarray(0, -20), Buffer.alloc(20)])),
    // An offset beyond what a buffer can have.
    () => writeFileSync(codeFile(), Buffer.from(intact.toString("latin1").replace(/,\[\d/, ",[1e99"), "latin1")),
  ]) {
    damage();
    const found = compilations();
    const program = load();
    expect(program.exports.greeting).toBe("hello world");
    expect(found).toContain("compiled");
    await program.keepCompiledCode();
    load();
    expect(found.slice(-2)).toEqual(["stored", "stored"]);
    vi.restoreAllMocks();
  }
});

test("keeps the code of few versions and options of Node.js", async () => {
  const { dir, load, code } = bundled();
  for (const [age, name] of ["code-test-a", "code-test-b.7.tmp", "code-test-c", "code-test-d", "code-other-e"].entries()) {
    writeFileSync(join(dir, name), "");
    utimesSync(join(dir, name), 1000 - age, 1000 - age);
  }
  await load().keepCompiledCode();
  expect(code().filter((name) => /[a-e]$|tmp$/.test(name) && !/-[0-9a-f]{12}$/.test(name))).toEqual([
    "code-other-e",
    "code-test-a",
    "code-test-b.7.tmp",
    "code-test-c",
  ]);
});

test("runs without stored code if its directory cannot be written", async () => {
  const { dir, load, code } = bundled();
  // A directory in place of the file also stops root.
  const first = load();
  await first.keepCompiledCode();
  const [name = ""] = code();
  rmSync(join(dir, name));
  mkdirSync(join(dir, name, "occupied"), { recursive: true });
  chmodSync(join(dir, name), 0o500);
  const second = load();
  await second.keepCompiledCode();
  expect(second.exports.greeting).toBe("hello world");
  expect(readdirSync(dir).filter((each) => each.endsWith(".tmp"))).toEqual([]);
});
