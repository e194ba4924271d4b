/*
 * What the images of Keelson contain. All have the same first layer: the running Node.js with its shared libraries. The `keelson` image adds
 * the packages of the command line with their production dependencies, as installed in this repository; those of agents add one program.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { basename, delimiter, dirname, join, relative } from "node:path";
import { imagePrograms } from "./image-programs.mjs";
import { root } from "./steps.mjs";

/** Where Keelson is in an image. */
const home = "/opt/keelson";
const billPath = "/usr/share/keelson/sbom.cdx.json";
/** Default: `keelson`. */
const entrypoints = { "robot-agent": ["keelson", "robots", "agent"], "sandbox-agent": ["keelson", "sandbox", "agent"] };
const node = "/usr/local/bin/node";
/** User of the images: neither root nor a user of any distribution. */
const user = 65_532;

/** What agents need in addition to Node.js. `bwrap` isolates programs, `perl` watches directories, the others prepare and enter sandboxes. */
const agentPrograms = {
  "robot-agent": ["sh", "bwrap"],
  "sandbox-agent": [
    ...[
      "sh",
      "bwrap",
      "cat",
      "chmod",
      "chown",
      "env",
      "find",
      "mkdir",
      "mkfifo",
      "perl",
      "prlimit",
      "rm",
      "rmdir",
      "setpriv",
      "sleep",
    ],
    // Network and volumes.
    ...["nsenter", "unshare", "ip", "nft", "mount", "umount", "losetup", "fallocate", "flock", "sync"],
    ...["mkfs.ext4", "e2fsck", "resize2fs"],
  ],
  "middleware-agent": [],
  "mpi-worker": [],
};

/** Names of the images, the whole command line first. */
export const imageNames = ["keelson", ...Object.keys(agentPrograms)];

/**
 * Defines an image: its name, layers, configuration and bill of materials. An image whose programs are missing on this machine has a `problem`
 * instead.
 */
export async function defineImage(name, version) {
  return name === "keelson" ? defineCommandImage(version) : defineAgentImage(name, version);
}

function defineCommandImage(version) {
  const packages = packagesOf("keelson");
  const isOwn = ({ manifest }) => manifest.name === "keelson" || manifest.name.startsWith("@keelson/");
  const manifests = packages.map(({ manifest }) => manifest);
  return definition({ name: "keelson", version, manifests, programs: [] }, (bill) => [
    { description: "dependencies", entries: packages.filter((each) => !isOwn(each)).flatMap(packageEntries) },
    {
      description: `Keelson ${version}`,
      entries: [
        ...packages.filter(isOwn).flatMap(packageEntries),
        // The kernel starts Node.js: the image needs no shell.
        text("/usr/local/bin/keelson", `#!${node}\nimport("${home}/node_modules/keelson/bin/keelson.js");\n`, 0o755),
        text(billPath, bill),
      ],
    },
  ]);
}

async function defineAgentImage(name, version) {
  const { files, manifests } = await imagePrograms(name);
  return definition({ name, version, manifests, programs: agentPrograms[name] }, (bill) => [
    {
      description: `Keelson ${version}`,
      entries: [
        ...files.map((each) => text(`${home}/${each.name}`, each.text)),
        text(`${home}/package.json`, '{"type":"module"}\n'),
        text("/usr/local/bin/keelson", `#!${node}\nimport("${home}/main.js");\n`, 0o755),
        text(billPath, bill),
      ],
    },
  ]);
}

/** `layersOf` gets the bill of materials and returns the layers above those of Node.js and of the programs. */
function definition({ name, version, manifests, programs }, layersOf) {
  const found = programs.map((program) => ({ program, path: findProgram(program) }));
  const missing = found.filter(({ path }) => path === undefined).map(({ program }) => program);
  if (missing.length > 0)
    return {
      name,
      problem: `${missing.join(", ")} not found; install bubblewrap, e2fsprogs, iproute2, nftables, perl-base and util-linux`,
    };
  const libraries = sharedObjects();
  const others = [...new Set(found.flatMap(({ path }) => librariesOf(path)))]
    .filter((path) => !libraries.includes(path))
    .sort();
  const bill = billOfMaterials(name, version, manifests, [...libraries, ...others, ...found.map(({ path }) => path)]);
  const programEntries = [
    ...others.map((path) => file(path, realpathSync(path), 0o755)),
    ...found.map(({ program, path }) => file(`/bin/${program}`, realpathSync(path), 0o755)),
  ];
  return {
    name,
    bill,
    layers: [
      { description: `Node.js ${process.versions.node} and its libraries`, entries: baseEntries(libraries) },
      ...(programEntries.length === 0 ? [] : [{ description: "programs", entries: programEntries }]),
      ...layersOf(bill),
    ],
    config: {
      User: `${user}:${user}`,
      WorkingDir: "/",
      Env: ["PATH=/usr/local/bin:/usr/bin:/bin", "NODE_ENV=production", "HOME=/tmp"],
      Entrypoint: entrypoints[name] ?? ["keelson"],
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
    // Mount points: programs keep namespaces and locks in the first, sandbox agents prepare mounts in the second.
    { path: "/run", mode: 0o755, content: { kind: "folder" } },
    { path: "/mnt", mode: 0o755, content: { kind: "folder" } },
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

/** A package and all packages that it needs at run time, each with its directory here and in the image. */
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
    // For another runtime, whose users share packages with those of Node.js.
    if (manifest.engines?.bare !== undefined && manifest.engines.node === undefined) return;
    found.set(folder, { folder, manifest, target: targetOf(folder, manifest) });
    for (const each of Object.keys(manifest.dependencies ?? {}))
      visit(each, folder, each in (manifest.optionalDependencies ?? {}));
    for (const each of Object.keys({ ...manifest.optionalDependencies, ...manifest.peerDependencies }))
      visit(each, folder, true);
  };
  visit(name, root, false);
  return [...found.values()].sort((a, b) => (a.target < b.target ? -1 : 1));
}

/** The directory that Node.js resolves a package to. */
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
  if (path.startsWith("node_modules/")) return join(home, path);
  if (nested < 0) return join(home, "node_modules", manifest.name);
  const parent = JSON.parse(readFileSync(join(root, path.slice(0, nested), "package.json"), "utf8"));
  return join(home, "node_modules", parent.name, path.slice(nested + 1));
}

/** Files that no program reads at run time. */
const omitted =
  /(?:\.(?:map|md|markdown|ts|mts|cts|tsbuildinfo|flow)|(?:^|\/)(?:\.[^/]+|CHANGELOG[^/]*|tsconfig[^/]*\.json))$/i;
/** Addons for other versions of Node.js or another C library than those of the image, such as `node.abi127.glibc.node`. */
const isForeignAddon = (path) => {
  const abi = /\babi(\d+)\b[^/]*\.node$/.exec(path)?.[1];
  return (abi !== undefined && abi !== process.versions.modules) || /\bmusl\b[^/]*\.node$/.test(path);
};
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
      if (!omitted.test(path) && !isForeignAddon(path))
        entries.push(file(join(target, path), full, path.startsWith("bin/") ? 0o755 : 0o644));
      return;
    }
    const name = basename(path);
    // A package may keep its program in `src`; ours and most others do not.
    const isCode = name === "src" && !isOwn && usesFolder(manifest, "src");
    // Bundles of ours are for the directory in which they were built.
    if ((omittedFolders.has(name) && !isCode) || (isOwn && name === "bundle")) return;
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
function billOfMaterials(name, version, manifests, libraries) {
  const components = [
    { type: "platform", name: "node", version: process.versions.node, purl: `pkg:generic/node@${process.versions.node}` },
    ...libraries.map((path) => ({
      type: "file",
      name: path,
      hashes: [{ alg: "SHA-256", content: createHash("sha256").update(readFileSync(path)).digest("hex") }],
    })),
    ...manifests.map((manifest) => ({
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
