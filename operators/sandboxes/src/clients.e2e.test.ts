import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { watched } from "@keelson/client/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { type LocalSandboxes, namespace, startLocalSandboxes } from "./testing/local-sandboxes.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const example = (name: string): string => join(root, "examples/sandboxes", name);
/** Sandboxes run the programs below /usr, so the tests do as well. */
const python = "/usr/bin/python3";
const execute = promisify(execFile);

/** What both examples print. */
const expected = `wrote summary.json\n{"rows": 2, "total": 8.0}\nno network\nstopped after one second\n`;

describe("the client packages", () => {
  let local: LocalSandboxes;
  let dir: string;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "sandbox-clients-"));
    local = await startLocalSandboxes();
    const spec = { capacity: { poolMin: 1, poolMax: 1 }, maxSandboxesPerPod: 4 };
    await local.client.create(SandboxPool, { metadata: { name: "default-pool", namespace }, spec });
    await watched(local.client, SandboxPool, "default-pool", (pool) => (pool?.status?.readyPods ?? 0) >= 1);
    env = { PATH: process.env.PATH, KEELSON_SANDBOX_ENDPOINT: local.url, KEELSON_SANDBOX_TOKEN: local.token };
  });

  afterAll(async () => {
    await local.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const run = async (file: string, args: readonly string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) => {
    try {
      return (await execute(file, args, { cwd: dir, ...options })).stdout;
    } catch (error) {
      const { stdout, stderr } = error as { readonly stdout?: string; readonly stderr?: string };
      throw new Error(`${file} ${args.join(" ")}: ${stdout}${stderr}`, { cause: error });
    }
  };

  /** An empty project with the packed package, the dependencies that it declares, and a compiler. */
  async function installPackage(): Promise<string> {
    const project = join(dir, "project");
    const modules = join(project, "node_modules");
    mkdirSync(join(modules, "@keelson"), { recursive: true });
    const packed = await run("npm", [
      "pack",
      "--ignore-scripts",
      "--silent",
      "--pack-destination",
      dir,
      join(root, "packages/sandbox"),
    ]);
    await run("tar", ["-xzf", join(dir, packed.trim())]);
    cpSync(join(dir, "package"), join(modules, "@keelson/sandbox"), { recursive: true });
    const { dependencies } = JSON.parse(readFileSync(join(dir, "package/package.json"), "utf8")) as {
      readonly dependencies: Readonly<Record<string, string>>;
    };
    for (const name of [...Object.keys(dependencies), "@types/node"]) {
      mkdirSync(dirname(join(modules, name)), { recursive: true });
      symlinkSync(join(root, "node_modules", name), join(modules, name));
    }
    writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
    // As `tsc --init` writes it: Connect's own declarations need the types of browsers.
    const skipLibCheck = true;
    const compilerOptions = {
      skipLibCheck,
      module: "nodenext",
      target: "es2022",
      lib: ["es2023", "esnext.disposable"],
      types: ["node"],
      strict: true,
    };
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["generated-code.ts"] }));
    return project;
  }

  it("run generated code from a TypeScript project with the packed package", async () => {
    const project = await installPackage();
    const page = readFileSync(join(root, "docs/tutorials/run-generated-code.md"), "utf8");
    expect([page.includes(readFileSync(example("generated-code.ts"), "utf8")), page.includes(expected)]).toEqual([true, true]);
    cpSync(example("generated-code.ts"), join(project, "generated-code.ts"));
    await run(join(root, "node_modules/.bin/tsc"), ["-p", project]);
    expect(await run(process.execPath, ["generated-code.js"], { cwd: project, env })).toBe(expected);
    await expect.poll(async () => (await local.fastPath.listSandboxes({ namespace })).items).toEqual([]);
  });

  it("run generated code from Python with the package that pip installs from the tree", async () => {
    const target = join(dir, "python");
    const pip = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-cache-dir", "--target", target];
    await run(python, [...pip, join(root, "sdks/python")]);
    const page = readFileSync(join(root, "docs/tutorials/run-generated-code.md"), "utf8");
    expect(page).toContain(readFileSync(example("generated_code.py"), "utf8"));
    const environment = { ...env, PYTHONPATH: target, PYTHONDONTWRITEBYTECODE: "1" };
    expect(await run(python, [example("generated_code.py")], { env: environment })).toBe(expected);
    expect(await run(python, [join(root, "sdks/python/tests/live_check.py")], { env: environment })).toBe("ok\n");
  });

  it("has Python tests, which pass", async () => {
    const environment = { PATH: process.env.PATH, PYTHONPATH: join(root, "sdks/python"), PYTHONDONTWRITEBYTECODE: "1" };
    await run(python, ["-m", "unittest", "discover", "-s", join(root, "sdks/python/tests")], { env: environment });
  });
});
