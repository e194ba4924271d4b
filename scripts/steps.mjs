/*
 * What the scripts of this folder share: how to run a step, install packages and build. Plain JavaScript on Node's own
 * modules, because it runs before anything is installed.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's root. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The lowest Node.js that Keelson runs on. */
const floor = [20, 19];

/** Ends with a clear word where Node.js is too old. */
export function requireNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < floor[0] || (major === floor[0] && minor < floor[1])) {
    fail(
      `Keelson needs Node.js ${floor.join(".")} or newer; this is ${process.versions.node}. Install a newer one and try again.`,
    );
  }
}

/** Prints why and ends with exit status 1. */
export function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/** Runs a program with our terminal. Answers its exit status. */
export function run(command, args, options = {}) {
  const result = spawnSync(command, args, { cwd: root, stdio: "inherit", ...options });
  if (result.error) fail(`${command} could not be started: ${result.error.message}`);
  return result.status ?? 1;
}

/** Runs a program quietly and says how long it took. Answers what it said where it failed, `undefined` where it did not. */
export function attempt(title, command, args, options = {}) {
  const started = performance.now();
  process.stdout.write(`${title} ... `);
  const result = spawnSync(command, args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28, ...options });
  const isFailure = result.error !== undefined || result.status !== 0;
  process.stdout.write(isFailure ? "failed\n" : `${((performance.now() - started) / 1000).toFixed(1)} s\n`);
  if (!isFailure) return undefined;
  return `${result.stdout ?? ""}${result.stderr ?? ""}${result.error?.message ?? ""}\n${title} failed: ${command} ${args.join(" ")}`;
}

/** Runs a program quietly; on failure prints what it said and ends. */
export function step(title, command, args, options = {}) {
  const failure = attempt(title, command, args, options);
  if (failure !== undefined) fail(failure);
}

/** How npm itself is called, whichever way this script was started. */
export function npmCommand(args) {
  const path = process.env.npm_execpath;
  return path?.endsWith(".js") ? { command: process.execPath, args: [path, ...args] } : { command: "npm", args };
}

/** Runs npm itself. */
function npm(title, args, cwd) {
  const call = npmCommand(args);
  return step(title, call.command, call.args, { cwd });
}

/** Installs the packages of `folder`'s lock file, unless the very same are there. */
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

/** Builds all packages; quick where nothing changed. */
export function build() {
  step("build", process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-b"]);
}
