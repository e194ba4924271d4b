/*
 * `npm run image`: writes the images of Keelson as OCI archives, without a daemon and without a registry: `keelson`, with the
 * whole command line, and smaller ones of the agents. Each contains the running Node.js with its shared libraries and a bill of materials
 * (CycloneDX). Equal inputs give equal archives. `--folder DIR` writes the files of one image to a directory instead, for the Dockerfile.
 *
 *   npm run image                                  # dist/images/keelson.tar, sandbox-agent.tar and so on
 *   npm run image -- --only keelson,mpi-worker
 *   npm run image -- --output DIR --repository registry.example/keelson
 *   npm run image -- --compression-level 1         # a larger archive, written five times as fast
 *   npm run image -- --skip-build                  # of the packages as they are built
 */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { defineImage, imageNames } from "./image-contents.mjs";
import { build, fail, install, requireNode, root } from "./steps.mjs";

const { values } = readArguments({
  options: {
    only: { type: "string" },
    output: { type: "string", default: "dist/images" },
    folder: { type: "string" },
    repository: { type: "string", default: "docker.io/keelson" },
    tag: { type: "string" },
    "compression-level": { type: "string", default: "9" },
    "skip-build": { type: "boolean", default: false },
  },
});
const compressionLevel = Number(values["compression-level"]);
if (!/^[0-9]$/.test(values["compression-level"])) fail("--compression-level: must be a digit from 0 to 9");
requireNode();
if (!values["skip-build"]) {
  await install();
  await build();
}
const { createImage } = await import("../packages/execution/dist/index.js");
const { version } = JSON.parse(readFileSync(join(root, "apps/cli/package.json"), "utf8"));
const names = values.only?.split(",") ?? imageNames;
const unknown = names.filter((name) => !imageNames.includes(name));
if (unknown.length > 0) fail(`--only: unknown image ${unknown.join(", ")}: must be one or more of ${imageNames.join(", ")}`);

const folder = resolve(root, values.output);
mkdirSync(folder, { recursive: true });
for (const name of names) {
  const { layers, config, bill, problem } = await defineImage(name, version);
  if (problem !== undefined) {
    process.stdout.write(`${name}  skipped: ${problem}\n`);
    continue;
  }
  if (values.folder !== undefined) {
    writeFolder(resolve(values.folder), layers);
    continue;
  }
  const file = join(folder, `${name}.tar`);
  const image = `${values.repository}/${name}:${values.tag ?? version}`;
  const { digest, archiveBytes } = await createImage({ file, name: image, layers, config, compressionLevel });
  writeFileSync(join(folder, `${name}.cdx.json`), bill);
  const megabytes = (archiveBytes / 1e6).toFixed(1);
  process.stdout.write(`${relative(process.cwd(), file)}  ${image}  ${megabytes} MB  ${digest}\n`);
}

function writeFolder(target, layers) {
  for (const { path, mode, content } of layers.flatMap(({ entries }) => entries)) {
    const full = join(target, path);
    mkdirSync(content.kind === "folder" ? full : dirname(full), { recursive: true });
    if (content.kind === "text") writeFileSync(full, content.text);
    if (content.kind === "file") copyFileSync(content.source, full);
    chmodSync(full, mode);
  }
}

/** Invalid usage is one line, without the stack trace. */
function readArguments(config) {
  try {
    return parseArgs(config);
  } catch (error) {
    return fail(`${error.message}; see the comment at the start of scripts/image.mjs`);
  }
}
