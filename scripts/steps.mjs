/*
 * Shared by the scripts in this directory: running steps, installing packages and building. Plain JavaScript that uses only Node.js
 * modules, because it runs before anything is installed.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's root. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The oldest supported Node.js. */
const minNodeVersion = [20, 19];

/** Exits with a clear message if Node.js is too old. */
export function requireNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  const [minMajor, minMinor] = minNodeVersion;
  if (major < minMajor || (major === minMajor && minor < minMinor)) {
    fail(
      `Keelson requires Node.js ${minNodeVersion.join(".")} or newer, and 24 is recommended; this is ${process.versions.node}. Install a newer version and try again.`,
    );
  }
}

/** Prints a message and exits with status 1. */
export function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/** Runs a program on this terminal. Resolves to its exit status. */
export async function run(command, args, options = {}) {
  const child = spawn(command, args, { cwd: root, stdio: "inherit", ...options });
  try {
    const [status] = await once(child, "close");
    return status ?? 1;
  } catch (error) {
    return fail(`could not start ${command}: ${error.message}`);
  }
}

/** Runs a program quietly and prints how long it took. Resolves to its output if it failed, otherwise to `undefined`. */
export async function attempt(title, command, args, options = {}) {
  const started = performance.now();
  const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"], ...options });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (chunk) => (output += chunk));
  let status = 1;
  try {
    [status] = await once(child, "close");
  } catch (error) {
    output += error.message;
  }
  // One write, as several steps can run at the same time.
  process.stdout.write(`${title} ... ${status === 0 ? `${((performance.now() - started) / 1000).toFixed(1)} s` : "failed"}\n`);
  return status === 0 ? undefined : `${output}\n${title} failed: ${command} ${args.join(" ")}`;
}

/** Runs a program quietly. If it fails, prints its output and exits. */
export async function step(title, command, args, options = {}) {
  const failure = await attempt(title, command, args, options);
  if (failure !== undefined) fail(failure);
}

/** The command that runs npm, however this script was started. */
export function npmCommand(args) {
  const path = process.env.npm_execpath;
  return path?.endsWith(".js") ? { command: process.execPath, args: [path, ...args] } : { command: "npm", args };
}

function npm(title, args, cwd) {
  const call = npmCommand(args);
  return step(title, call.command, call.args, { cwd });
}

/** Installs the packages of `folder`'s lock file, unless exactly these are installed. */
export async function install(folder = root, title = "install packages") {
  const lock = createHash("sha256")
    .update(readFileSync(join(folder, "package-lock.json")))
    .update(readFileSync(join(folder, "package.json")))
    .update(process.platform + process.arch)
    .digest("hex");
  const stamp = join(folder, "node_modules", ".keelson-lock");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  await npm(title, ["ci", "--no-audit", "--no-fund", "--loglevel=error"], folder);
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, lock);
}

/** Builds all packages incrementally, and the bundle of the command. */
export async function build() {
  await step("build", process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-b"]);
  await step("bundle", process.execPath, [join(root, "scripts/bundle.mjs")]);
}
