/*
 * Checks what npm would publish: every package contains its README and licence, its exports, every source that a map refers to, and no
 * tests, and declares everything that it imports.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { builtinModules } from "node:module";
import { fail, npmCommand, root } from "./steps.mjs";

const { command, args } = npmCommand(["pack", "--dry-run", "--json", "--workspaces", "--ignore-scripts", "--loglevel=error"]);
const packed = spawnSync(command, args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 });
if (packed.status !== 0) fail(`npm pack failed: ${packed.stderr}`);
const licence = readFileSync(join(root, "LICENSE"), "utf8");

const folders = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
const folderOf = (name) =>
  Object.entries(folders).find(([path, entry]) => entry.link && path.endsWith(`node_modules/${name}`))?.[1].resolved;

const problems = JSON.parse(packed.stdout).flatMap(({ name, files }) => {
  const folder = join(root, folderOf(name));
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return manifest.private
    ? []
    : findProblems(folder, manifest, new Set(files.map((file) => file.path))).map((problem) => `${name}: ${problem}`);
});
if (problems.length > 0) fail(problems.join("\n"));

/** Problems of a package with these files. */
function findProblems(folder, manifest, files) {
  const found = [];
  for (const file of ["README.md", "LICENSE"]) if (!files.has(file)) found.push(`${file} is missing`);
  if (files.has("LICENSE") && readFileSync(join(folder, "LICENSE"), "utf8") !== licence)
    found.push("LICENSE differs from the root's");
  for (const field of ["description", "keywords", "license", "engines"])
    if (!manifest[field]) found.push(`package.json has no ${field}`);
  const targets = [
    Object.values(manifest.bin ?? {}),
    Object.values(manifest.exports).map((target) => (typeof target === "string" ? target : Object.values(target))),
  ];
  for (const target of targets.flat(2).map((path) => posix.normalize(path))) {
    if (!files.has(target)) found.push(`${target} is exported but not packed`);
  }
  if (manifest.name === "keelson" && !files.has("dist/examples/robots/hello.yaml"))
    found.push("the tour's examples are missing");
  const declared = new Set([manifest.name, ...Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })]);
  for (const file of files) {
    if (/\.test\.|\.tsbuildinfo$/.test(file)) found.push(`${file} is packed`);
    if (file.endsWith(".map")) found.push(...missingSources(folder, file, files));
    if (/^(bin|dist)\/.*\.js$/.test(file))
      found.push(
        ...undeclared(join(folder, file), declared).map((name) => `${file} imports ${name}, which is not a dependency`),
      );
  }
  return found;
}

/** Sources that a map refers to but the package lacks. Stale maps of deleted sources are ignored. */
function missingSources(folder, map, files) {
  const { sources } = JSON.parse(readFileSync(join(folder, map), "utf8"));
  const paths = sources.map((source) => posix.join(posix.dirname(map), source));
  return paths
    .filter((path) => !files.has(path) && existsSync(join(folder, path)))
    .map((path) => `${map} refers to ${path}, which is not packed`);
}

/** Packages that a file imports and that are not declared. */
function undeclared(path, declared) {
  const text = readFileSync(path, "utf8");
  const imports = [
    ...text.matchAll(/^\s*(?:import|export)\b[^"'`;]*?\bfrom "([^"]+)"|^\s*import "([^"]+)"|\bimport\("([^"]+)"\)/gm),
  ];
  const names = imports
    .map(([, from, bare, dynamic]) => from ?? bare ?? dynamic)
    .filter((name) => !name.startsWith(".") && !name.startsWith("node:"));
  return [...new Set(names.map(packageOf))].filter((name) => !declared.has(name) && !builtinModules.includes(name));
}

function packageOf(specifier) {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}
