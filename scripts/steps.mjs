/*
 * Shared by the scripts in this folder: running steps, installing packages and building. Plain JavaScript that uses only Node.js
 * modules, because it runs before anything is installed.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
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

/** Runs a program on this terminal. Returns its exit status. */
export function run(command, args, options = {}) {
  const result = spawnSync(command, args, { cwd: root, stdio: "inherit", ...options });
  if (result.error) fail(`could not start ${command}: ${result.error.message}`);
  return result.status ?? 1;
}

/** Runs a program quietly and prints how long it took. Returns its output if it failed, otherwise `undefined`. */
export function attempt(title, command, args, options = {}) {
  const started = performance.now();
  process.stdout.write(`${title} ... `);
  const result = spawnSync(command, args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28, ...options });
  const isFailure = result.error !== undefined || result.status !== 0;
  process.stdout.write(isFailure ? "failed\n" : `${((performance.now() - started) / 1000).toFixed(1)} s\n`);
  if (!isFailure) return undefined;
  return `${result.stdout ?? ""}${result.stderr ?? ""}${result.error?.message ?? ""}\n${title} failed: ${command} ${args.join(" ")}`;
}

/** Runs a program quietly. If it fails, prints its output and exits. */
export function step(title, command, args, options = {}) {
  const failure = attempt(title, command, args, options);
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
export function install(folder = root, title = "install packages") {
  const lock = createHash("sha256")
    .update(readFileSync(join(folder, "package-lock.json")))
    .update(readFileSync(join(folder, "package.json")))
    .update(process.platform + process.arch)
    .digest("hex");
  const stamp = join(folder, "node_modules", ".keelson-lock");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  npm(title, ["ci", "--no-audit", "--no-fund", "--loglevel=error"], folder);
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, lock);
}

/** Builds all packages incrementally, and the bundle of the command. */
export function build() {
  step("build", process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-b"]);
  step("bundle", process.execPath, [join(root, "scripts/bundle.mjs")]);
}
