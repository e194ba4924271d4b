/*
 * The real programs that tests and the tour drive. As root on Debian what is missing is installed; elsewhere it is named
 * with the way to get it.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { step } from "./steps.mjs";

/** Program, the Debian package that brings it, and what for. */
const programs = [
  { program: "kubectl", package: "kubernetes-client", why: "the tests that drive the API server with a real kubectl" },
  { program: "mosquitto", package: "mosquitto", why: "the tests of the bridge with a real MQTT broker" },
];

function isInstalled(program) {
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  return folders.some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Installs what is missing where it can. Answers what is still missing. */
export function installSystemPrograms() {
  let missing = programs.filter(({ program }) => !isInstalled(program));
  const hasApt = spawnSync("apt-get", ["--version"], { stdio: "ignore" }).status === 0;
  if (missing.length > 0 && hasApt && process.getuid?.() === 0) {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const packages = missing.map((entry) => entry.package);
    step("apt-get update", "apt-get", ["update", "-qq"], { env });
    step(`apt-get install ${packages.join(" ")}`, "apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages], {
      env,
    });
    missing = programs.filter(({ program }) => !isInstalled(program));
  }
  return missing;
}
