/*
 * The programs in the images of agents. Each is bundled with the modules that it uses into one directory, where it finds the programs that it
 * starts or copies, so that its image needs no packages.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { rolldown } from "rolldown";
import { compactSource, usedModules } from "./bundle-options.mjs";
import { root } from "./steps.mjs";

const sandboxes = join(root, "operators/sandboxes/dist");
const programs = join(root, "apps/cli/dist/programs");
const middlewareProgram = "middleware-agent-program.mjs";
const mpiProgram = "launch/pod-program.cjs";

/**
 * The programs by image: `main` is its command line, `children` are programs that `main` starts from its own directory, and `files` are programs
 * without their own modules, which it copies into Pods.
 */
const definitions = {
  "robot-agent": { main: join(programs, "robot-agent.js") },
  "sandbox-agent": {
    main: join(programs, "sandbox-agent.js"),
    children: {
      "port-relay-program": join(sandboxes, "sandbox/port-relay-program.js"),
      "files-program": join(sandboxes, "files/files-program.js"),
    },
  },
  "middleware-agent": {
    main: join(programs, "middleware-agent.js"),
    files: { [middlewareProgram]: join(programs, middlewareProgram) },
  },
  "mpi-worker": {
    main: join(programs, "mpi-worker.js"),
    files: { [mpiProgram]: join(root, "operators/mpi/dist", mpiProgram) },
  },
};

/**
 * Bundles the programs of an image. Returns the files with their names in its directory, of which `main.js` is the command line, and the manifests
 * of all packages that they contain parts of.
 */
export async function imagePrograms(name) {
  const { main, children = {}, files = {} } = definitions[name];
  const modules = new Set();
  const bundled = await bundle({ main, ...children }, modules);
  // These are bundles already. What they were made of is listed by bundling them once more.
  for (const source of Object.values(files)) await bundle({ file: source.replace(/\.[cm]js$/, ".js") }, modules);
  return {
    files: [
      ...bundled.map(({ fileName, code }) => ({ name: fileName, text: code })),
      ...Object.entries(files).map(([file, source]) => ({ name: file, text: readFileSync(source, "utf8") })),
    ],
    manifests: manifestsOf(modules),
  };
}

/** The files of a bundle. Adds the paths of all modules in it to `modules`. */
async function bundle(input, modules) {
  const build = await rolldown({ cwd: root, input, platform: "node", logLevel: "silent", treeshake: usedModules });
  const { output } = await build.generate({ ...compactSource, format: "esm", chunkFileNames: "[name]-[hash].js" });
  await build.close();
  for (const { moduleIds } of output) for (const id of moduleIds) modules.add(id);
  return output;
}

/** The manifests of the packages that contain these modules, each once, by name. */
function manifestsOf(modules) {
  const manifests = new Map();
  for (const id of modules) {
    const folder = packageFolder(id);
    if (folder === undefined || manifests.has(folder)) continue;
    manifests.set(folder, JSON.parse(readFileSync(join(folder, "package.json"), "utf8")));
  }
  return [...manifests.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The directory of the package of a module. Undefined for modules of the bundler. A manifest without a name only sets the type of modules. */
function packageFolder(module) {
  if (!module.startsWith("/")) return undefined;
  for (let folder = dirname(module); folder.length >= root.length; folder = dirname(folder)) {
    const path = join(folder, "package.json");
    if (existsSync(path) && JSON.parse(readFileSync(path, "utf8")).name !== undefined) return folder;
  }
  return undefined;
}
