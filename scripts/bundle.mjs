/*
 * Bundles the built `keelson` command, the sandbox agents, middleware and robots and the program in the Pods of MPI jobs for this checkout,
 * so that they load faster. Anything that is built or installed afterwards makes the bundles stale, and the programs run from their
 * packages again (packages/operator/src/bundle.ts).
 *
 * Also copies the examples of `keelson up --tour` into the package of the command.
 */
import { createHash } from "node:crypto";
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";
import { currentBundle } from "../packages/operator/dist/bundle.js";
import { compactSource, usedModules } from "./bundle-options.mjs";
import { root } from "./steps.mjs";

/** Extensions of files by format. */
const extensions = { esm: ".js", cjs: ".cjs" };
const command = {
  bundles: join(root, "apps/cli/bundle"),
  programs: {
    main: join(root, "apps/cli/dist/main.js"),
    // A program of the end-to-end tests.
    "api-server": join(root, "apps/cli/dist/testing/serve-api-server.js"),
  },
  // CommonJS, whose compiled code can be kept for the next start (packages/operator/src/bundled-program.ts).
  format: "cjs",
};
const sandboxAgent = {
  bundles: join(root, "operators/sandboxes/dist/bundle"),
  programs: {
    "agent-main": join(root, "operators/sandboxes/dist/agent/agent-main.js"),
    // The operator that tests kill at every stage (operators/sandboxes/src/testing/operator-process.ts).
    operator: join(root, "operators/sandboxes/dist/index.js"),
    client: join(root, "packages/client/dist/index.js"),
    "start-operator": join(root, "packages/operator/dist/index.js"),
  },
};
/** Middleware agents that tests start in every Pod (operators/middleware/src/testing/agent-bundle.ts), by the directories of their packages. */
const middlewareAgents = {
  bundles: join(root, "operators/middleware/dist/bundle"),
  programs: {
    middleware: join(root, "operators/middleware/dist/agent/main.js"),
    "middleware-postgres": join(root, "packages/middleware-postgres/dist/main.js"),
  },
};
const robotAgent = {
  bundles: join(root, "operators/robots/dist/bundle"),
  programs: { "agent-command": join(root, "operators/robots/dist/agent-command.js") },
  treeshake: usedModules,
};

for (const family of ["robots", "middleware", "testplane", "mpi", "sandboxes"]) {
  cpSync(join(root, "examples", family), join(root, "apps/cli/dist/examples", family), { recursive: true });
}
if (!isCurrent(command)) {
  await bundle(command);
  await bundlePodProgram();
  await bundleAgentProgram();
}
for (const each of [sandboxAgent, middlewareAgents, robotAgent]) if (!isCurrent(each)) await bundle(each);

function isCurrent({ bundles, programs, format = "esm" }) {
  return Object.keys(programs).every((name) => {
    const url = currentBundle(pathToFileURL(`${bundles}/`), `${name}${extensions[format]}`);
    return url !== undefined && existsSync(new URL(url));
  });
}

async function bundle({ bundles, programs, treeshake = true, format = "esm" }) {
  const inputs = inputFiles().map((path) => [relative(bundles, path), statSync(path).mtimeMs]);
  const folder = createHash("sha256").update(JSON.stringify(inputs)).digest("hex").slice(0, 16);
  const dir = join(bundles, folder);
  const build = await rolldown({
    input: programs,
    platform: "node",
    // A native module.
    external: ["lmdb"],
    treeshake,
    logLevel: "silent",
    plugins: [{ name: "module-urls", transform: (code, id) => keepModuleUrl(code, id, dir, format) }],
  });
  const extension = extensions[format];
  const names = { entryFileNames: `[name]${extension}`, chunkFileNames: `[name]-[hash]${extension}` };
  await build.write({ ...compactSource, dir, format, ...names });
  await build.close();
  const previous = currentFolder(bundles);
  const draft = join(bundles, `current-${process.pid}.json`);
  writeFileSync(draft, JSON.stringify({ folder, inputs }));
  renameSync(draft, join(bundles, "current.json"));
  // A program that started from the previous bundle may still load modules from it.
  for (const entry of readdirSync(bundles, { withFileTypes: true }))
    if (entry.isDirectory() && ![folder, previous].includes(entry.name)) rmSync(join(bundles, entry.name), { recursive: true });
}

/** Bundles the program of MPI jobs alongside its modules (operators/mpi/src/children/pod-program-path.ts). */
async function bundlePodProgram() {
  const program = join(root, "operators/mpi/dist/launch/pod-program.js");
  const build = await rolldown({ input: program, platform: "node", logLevel: "silent" });
  const { output } = await build.generate({ ...compactSource, format: "cjs" });
  await build.close();
  // Renamed, so that no Pod starts an unfinished program.
  const draft = program.replace(/\.js$/, `-${process.pid}.tmp`);
  writeFileSync(draft, output[0].code);
  renameSync(draft, program.replace(/\.js$/, ".cjs"));
}

/** Bundles the program that `keelson middleware copy-agent` copies into Pods, as one file. */
async function bundleAgentProgram() {
  const program = join(root, "apps/cli/dist/programs/middleware-agent-program.js");
  const build = await rolldown({ input: program, platform: "node", logLevel: "silent", treeshake: usedModules });
  const draft = program.replace(/\.js$/, `-${process.pid}.tmp`);
  await build.write({ ...compactSource, file: draft, format: "esm", codeSplitting: false });
  await build.close();
  renameSync(draft, program.replace(/\.js$/, ".mjs"));
}

/** Records of the compiler, which change whenever its output does, and the record of the installed packages. */
function inputFiles() {
  const builds = ["packages", "operators", "apps"].flatMap((parent) =>
    readdirSync(join(root, parent)).map((name) => join(root, parent, name, "dist/.tsbuildinfo")),
  );
  return [...builds, join(root, "node_modules/.package-lock.json")].filter((path) => statSync(path, { throwIfNoEntry: false }));
}

function currentFolder(bundles) {
  try {
    return JSON.parse(readFileSync(join(bundles, "current.json"), "utf8")).folder;
  } catch {
    return undefined;
  }
}

/** Keeps the URL of a module, from which it finds other files, and what else depends on where it is. */
function keepModuleUrl(code, id, dir, format) {
  if (!/import\.meta|import\((?:"node:|__rewrite)/.test(code)) return null;
  const path = JSON.stringify(relative(dir, id));
  if (format === "esm")
    return { code: code.replaceAll("import.meta.url", `new URL(${path}, import.meta.url).href`), map: null };
  const adapted = code
    .replaceAll("import.meta.url", `bundleScope.url(${path})`)
    .replaceAll("import.meta.resolve(", "bundleScope.resolve(")
    .replaceAll(/\bimport\((?="node:|__rewrite)/g, "bundleScope.import(");
  return { code: adapted, map: null };
}
