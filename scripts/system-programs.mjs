/*
 * The real programs that tests and the tour drive. As root on Debian what is missing is installed; elsewhere it is named
 * with the way to get it.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { step } from "./steps.mjs";

const mpi = (program, packages) => ({ program, packages, why: "MPI jobs", tests: ["operators/mpi/**/*.e2e.test.ts"] });

/** A program, the Debian packages that bring it, what for, and the tests that cannot do without it. */
const programs = [
  {
    program: "kubectl",
    packages: ["kubernetes-client"],
    why: "the API server driven by a real kubectl (1.27 or newer: https://kubernetes.io/docs/tasks/tools/)",
    tests: ["**/kubectl.e2e.test.ts"],
    // Debian 12 has 1.20, which knows neither OpenAPI v3 nor `wait --for=jsonpath`.
    isUsable: () => minorVersionOfKubectl() >= 27,
  },
  {
    program: "mosquitto",
    packages: ["mosquitto"],
    why: "the bridge with a real MQTT broker",
    tests: ["**/mosquitto.e2e.test.ts"],
  },
  {
    program: "bwrap",
    packages: ["bubblewrap"],
    why: "sandboxes",
    tests: ["**/bubblewrap-driver.e2e.test.ts", "operators/sandboxes/**/*.e2e.test.ts"],
  },
  { program: "redis-server", packages: ["redis-server"], why: "middleware", tests: ["operators/middleware/**/*.e2e.test.ts"] },
  mpi("gcc", ["gcc", "libc6-dev"]),
  mpi("mpicc.openmpi", ["openmpi-bin", "libopenmpi-dev"]),
  mpi("mpicc.mpich", ["mpich", "libmpich-dev"]),
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

function minorVersionOfKubectl() {
  const { stdout } = spawnSync("kubectl", ["version", "--client", "--output=json"], { encoding: "utf8" });
  return Number(/"minor": *"(\d+)/.exec(stdout ?? "")?.[1] ?? 0);
}

/** Debian starts a server's service with its installation, and it would have the port that a user wants: not this time. */
function withoutServices(install) {
  const policy = "/usr/sbin/policy-rc.d";
  const isOurs = !existsSync(policy);
  const remove = () => rmSync(policy, { force: true });
  if (isOurs) {
    writeFileSync(policy, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
    // A step that fails ends the process.
    process.once("exit", remove);
  }
  install();
  if (isOurs) remove();
}

/** Installs what is missing where it can. Answers what is still missing. */
export function installSystemPrograms() {
  const absent = programs.filter(({ program }) => !isInstalled(program));
  const hasApt = spawnSync("apt-get", ["--version"], { stdio: "ignore" }).status === 0;
  if (absent.length > 0 && hasApt && process.getuid?.() === 0) {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const packages = absent.flatMap((entry) => entry.packages);
    step("apt-get update", "apt-get", ["update", "-qq"], { env });
    const install = ["install", "-y", "-qq", "--no-install-recommends", ...packages];
    withoutServices(() => step(`apt-get install ${packages.join(" ")}`, "apt-get", install, { env }));
  }
  // One that is there and will not do is the user's to replace.
  return programs.filter(({ program, isUsable }) => !isInstalled(program) || isUsable?.() === false);
}
