/*
 * What the images of Keelson contain: the running Node.js with its shared libraries, and packages with the production dependencies that
 * they need, as installed in this repository.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { basename, delimiter, dirname, join, relative } from "node:path";
import { root } from "./steps.mjs";

/** Where the packages are in an image. */
const home = "/opt/keelson/node_modules";
const node = "/usr/local/bin/node";
/** User of the images: neither root nor a user of any distribution. */
const user = 65_532;

/** What sandboxes need in addition to Node.js. `bwrap` isolates them, `perl` watches their folders, the others prepare them. */
const sandboxPrograms = ["sh", "bwrap", "cat", "env", "mkfifo", "mkdir", "mount", "perl", "rm", "setpriv", "sleep", "umount"];

/** The images: name, layers, configuration and bill of materials. An image whose programs are missing here has a `problem` instead. */
export function imageDefinitions(version) {
  const packages = packagesOf("keelson");
  return [
    definition({ name: "keelson", version, packages, programs: [], entrypoint: ["keelson"] }),
    definition({
      ...{ name: "sandbox-agent", version, packages: packagesOf("keelson"), programs: sandboxPrograms },
      entrypoint: ["keelson", "sandbox", "agent"],
    }),
  ];
}

function definition({ name, version, packages, programs, entrypoint }) {
  const found = programs.map((program) => ({ program, path: findProgram(program) }));
  const missing = found.filter(({ path }) => path === undefined).map(({ program }) => program);
  if (missing.length > 0)
    return { name, problem: `${missing.join(", ")} not found; install bubblewrap, perl-base and util-linux` };
  const libraries = [...new Set([...sharedObjects(), ...found.flatMap(({ path }) => librariesOf(path))])].sort();
  const bill = billOfMaterials(name, version, packages, [...libraries, ...found.map(({ path }) => path)]);
  const isOwn = ({ manifest }) => manifest.name === "keelson" || manifest.name.startsWith("@keelson/");
  const base = [
    ...baseEntries(libraries),
    ...found.map(({ program, path }) => file(`/bin/${program}`, realpathSync(path), 0o755)),
  ];
  return {
    name,
    bill,
    layers: [
      { description: `Node.js ${process.versions.node} and its libraries`, entries: base },
      { description: "dependencies", entries: packages.filter((each) => !isOwn(each)).flatMap(packageEntries) },
      {
        description: `Keelson ${version}`,
        entries: [
          ...packages.filter(isOwn).flatMap(packageEntries),
          // The kernel starts Node.js: the image needs no shell.
          text("/usr/local/bin/keelson", `#!${node}\nimport("${home}/keelson/bin/keelson.js");\n`, 0o755),
          text("/usr/share/keelson/sbom.cdx.json", bill),
        ],
      },
    ],
    config: {
      User: `${user}:${user}`,
      WorkingDir: "/",
      Env: ["PATH=/usr/local/bin:/usr/bin:/bin", "NODE_ENV=production", "HOME=/tmp"],
      Entrypoint: entrypoint,
      Labels: { "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0" },
    },
  };
}

function findProgram(name) {
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/** Libraries of a program, from lines of ldd such as `libm.so.6 => /lib/.../libm.so.6 (0x...)`. */
function librariesOf(path) {
  const lines = execFileSync("ldd", [path], { encoding: "utf8" }).split("\n");
  return lines.map((line) => /(?:=>\s*|^\s*)(\/\S+)\s+\(0x/.exec(line)?.[1]).filter((library) => library !== undefined);
}

const text = (path, content, mode = 0o644) => ({ path, mode, content: { kind: "text", text: content } });
const file = (path, source, mode) => ({ path, mode, content: { kind: "file", source } });

function baseEntries(libraries) {
  return [
    file(node, realpathSync(process.execPath), 0o755),
    ...libraries.map((path) => file(path, realpathSync(path), 0o755)),
    text("/etc/passwd", `root:x:0:0:root:/:/sbin/nologin\nkeelson:x:${user}:${user}:keelson:/tmp:/sbin/nologin\n`),
    text("/etc/group", `root:x:0:\nkeelson:x:${user}:\n`),
    text("/etc/nsswitch.conf", "hosts: files dns\n"),
    { path: "/tmp", mode: 0o1777, content: { kind: "folder" } },
  ];
}

/** Paths of the libraries of this process that belong to Node.js, not to an addon; and those that glibc loads for name resolution. */
function sharedObjects() {
  const { sharedObjects: loaded } = process.report.getReport();
  const libraries = loaded.filter((path) => path.startsWith("/") && /\.so(\.|$)/.test(path) && !path.includes("node_modules"));
  const folder = libraries.map(dirname).find((path) => existsSync(join(path, "libc.so.6")));
  const resolution = ["libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"].map((name) => join(folder ?? "/lib", name));
  return [...new Set([...libraries, ...resolution.filter((path) => existsSync(path))])].sort();
}

/** A package and all packages that it needs at run time, each with its folder here and in the image. */
function packagesOf(name) {
  const found = new Map();
  const visit = (wanted, from, isOptional) => {
    const folder = findPackage(wanted, from);
    if (folder === undefined) {
      if (isOptional) return;
      throw new Error(`${wanted}, which ${relative(root, from)} needs, is not installed: run npm ci`);
    }
    if (found.has(folder)) return;
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    found.set(folder, { folder, manifest, target: targetOf(folder, manifest) });
    for (const each of Object.keys(manifest.dependencies ?? {}))
      visit(each, folder, each in (manifest.optionalDependencies ?? {}));
    for (const each of Object.keys({ ...manifest.optionalDependencies, ...manifest.peerDependencies }))
      visit(each, folder, true);
  };
  visit(name, root, false);
  return [...found.values()].sort((a, b) => (a.target < b.target ? -1 : 1));
}

/** The folder that Node.js resolves a package to. */
function findPackage(name, from) {
  for (let folder = from; folder.length >= root.length; folder = dirname(folder)) {
    const candidate = join(folder, "node_modules", name);
    if (existsSync(join(candidate, "package.json"))) return realpathSync(candidate);
  }
  return undefined;
}

/** Packages of the workspace are next to the others; a package nested in another one stays nested. */
function targetOf(folder, manifest) {
  const path = relative(root, folder);
  const nested = path.indexOf("/node_modules/");
  if (path.startsWith("node_modules/")) return join(home, path.slice("node_modules/".length));
  if (nested < 0) return join(home, manifest.name);
  const parent = JSON.parse(readFileSync(join(root, path.slice(0, nested), "package.json"), "utf8"));
  return join(home, parent.name, path.slice(nested + 1));
}

/** Files that no program reads at run time. */
const omitted =
  /(?:\.(?:map|md|markdown|ts|mts|cts|tsbuildinfo|flow)|(?:^|\/)(?:\.[^/]+|CHANGELOG[^/]*|tsconfig[^/]*\.json))$/i;
const omittedFolders = new Set([
  "node_modules",
  "src",
  "test",
  "tests",
  "testing",
  "testdata",
  "docs",
  "example",
  "examples",
  "benchmark",
]);

function packageEntries({ folder, manifest, target }) {
  const isOwn = !relative(root, folder).startsWith("node_modules");
  const top = isOwn ? ["bin", "dist", "config", "package.json", "LICENSE"] : readdirSync(folder);
  const entries = [];
  const visit = (path) => {
    const full = join(folder, path);
    if (!existsSync(full)) return;
    const here = readdirSyncOrUndefined(full);
    if (here === undefined) {
      if (!omitted.test(path)) entries.push(file(join(target, path), full, path.startsWith("bin/") ? 0o755 : 0o644));
      return;
    }
    const name = basename(path);
    // A package may keep its program in `src`; ours and most others do not.
    const isCode = name === "src" && !isOwn && usesFolder(manifest, "src");
    if (omittedFolders.has(name) && !isCode) return;
    for (const each of here) visit(join(path, each));
  };
  for (const path of top) visit(path);
  return entries;
}

const usesFolder = (manifest, name) =>
  JSON.stringify([manifest.main, manifest.exports, manifest.bin, manifest.module]).includes(`${name}/`);

function readdirSyncOrUndefined(path) {
  try {
    return readdirSync(path);
  } catch (error) {
    if (error.code === "ENOTDIR") return undefined;
    throw error;
  }
}

/** The bill of materials (CycloneDX 1.6): Node.js, its libraries and every package, each with its licence. */
function billOfMaterials(name, version, packages, libraries) {
  const components = [
    { type: "platform", name: "node", version: process.versions.node, purl: `pkg:generic/node@${process.versions.node}` },
    ...libraries.map((path) => ({
      type: "file",
      name: path,
      hashes: [{ alg: "SHA-256", content: createHash("sha256").update(readFileSync(path)).digest("hex") }],
    })),
    ...packages.map(({ manifest }) => ({
      type: "library",
      name: manifest.name,
      version: manifest.version,
      purl: `pkg:npm/${manifest.name.replace("@", "%40")}@${manifest.version}`,
      ...(typeof manifest.license === "string" ? { licenses: [{ expression: manifest.license }] } : {}),
    })),
  ];
  const metadata = { component: { type: "container", name: `keelson/${name}`, version } };
  return `${JSON.stringify({ bomFormat: "CycloneDX", specVersion: "1.6", version: 1, metadata, components }, undefined, 2)}\n`;
}
