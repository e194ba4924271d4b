/*
 * The system programs that tests and the tour drive. As root on Debian, missing ones are installed; otherwise they are reported with
 * the command that installs them.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { attempt, step } from "./steps.mjs";

const mpi = (program, packages, isInTour) => ({
  program,
  packages,
  isInTour,
  why: "MPI jobs",
  tests: ["operators/mpi/**/*.e2e.test.ts", "apps/cli/src/e2e/{cluster-install,families,mpi,tutorials,up}.e2e.test.ts"],
  // The headers are packaged separately from the compiler wrappers.
  isUsable: () =>
    !program.startsWith("mpicc") || spawnSync(program, ["-E", "-include", "mpi.h", "-x", "c", "/dev/null"]).status === 0,
});

const containerTests = [
  "packages/execution/src/containerd/*.e2e.test.ts",
  "operators/sandboxes/**/{attacks,containerd-sandboxes,network}.e2e.test.ts",
  "apps/cli/src/e2e/{cluster-install,image,runtimes}.e2e.test.ts",
];

/** Each program with its Debian packages, its purpose, the tests that need it, and whether the tour drives it. */
const programs = [
  {
    program: "kubectl",
    packages: ["kubernetes-client"],
    why: "the API server driven by a real kubectl (1.20 or newer)",
    tests: [
      "**/kubectl*.e2e.test.ts",
      "apps/cli/src/e2e/{access,cluster-install,crash,image,install,middleware,operator,pods,runtimes,sandboxes,statefulset,streams}.e2e.test.ts",
      "apps/cli/src/e2e/{families,tutorials,without-root,write-a-controller}.e2e.test.ts",
    ],
  },
  {
    program: "mosquitto",
    packages: ["mosquitto"],
    why: "the bridge with a real MQTT broker",
    tests: ["**/mosquitto*.e2e.test.ts"],
  },
  {
    program: "bwrap",
    isInTour: true,
    packages: ["bubblewrap"],
    why: "sandboxes",
    tests: [
      "**/bubblewrap-driver.e2e.test.ts",
      "operators/sandboxes/**/*.e2e.test.ts",
      "operators/mpi/src/commands/build.e2e.test.ts",
      "apps/cli/src/e2e/{cluster-install,families,image,operator,runtimes,sandboxes,tutorials,up}.e2e.test.ts",
    ],
  },
  {
    program: "python3",
    packages: ["python3", "python3-pip"],
    why: "code in sandboxes, the Python client, and a second version of PostgreSQL",
    tests: [
      "operators/sandboxes/src/{clients,ports}.e2e.test.ts",
      "packages/middleware-postgres/src/postgres-upgrade.e2e.test.ts",
    ],
    // Sandboxes see the programs below /usr only.
    isUsable: () => spawnSync("/usr/bin/python3", ["-m", "pip", "--version"]).status === 0,
  },
  {
    program: "nft",
    packages: ["nftables", "iproute2"],
    why: "network access of sandboxes and partitions (in network namespaces of the tests, as root)",
    tests: ["operators/sandboxes/src/network/*.e2e.test.ts", "packages/middleware-postgres/src/postgres-partition.e2e.test.ts"],
    isUsable: () => process.getuid?.() === 0,
  },
  {
    program: "containerd",
    packages: ["containerd", "runc"],
    why: "programs as containers (tests start one of their own, as root)",
    tests: containerTests,
    isUsable: () => process.getuid?.() === 0,
  },
  {
    program: "busybox",
    packages: ["busybox-static"],
    why: "an image for containers",
    tests: containerTests,
  },
  {
    program: "redis-server",
    isInTour: true,
    packages: ["redis-server"],
    why: "middleware",
    tests: ["operators/middleware/**/*.e2e.test.ts", "apps/cli/src/e2e/{families,middleware,tutorials,up}.e2e.test.ts"],
  },
  {
    program: "initdb",
    packages: ["postgresql-15"],
    why: "PostgreSQL as middleware",
    tests: ["packages/middleware-postgres/**/*.e2e.test.ts", "apps/cli/src/e2e/tutorials.e2e.test.ts"],
    // Debian keeps the programs of each major version outside of PATH.
    folders: ["/usr/lib/postgresql/15/bin"],
  },
  mpi("gcc", ["gcc", "libc6-dev"], true),
  {
    program: "make",
    packages: ["make"],
    why: "images of MPI programs",
    tests: ["operators/mpi/src/commands/build.e2e.test.ts"],
  },
  mpi("mpicc.openmpi", ["openmpi-bin", "libopenmpi-dev"], true),
  mpi("mpicc.mpich", ["mpich", "libmpich-dev"], false),
  {
    program: "python3",
    packages: ["python3", "python3-mpi4py"],
    why: "MPI jobs in Python",
    tests: ["operators/mpi/src/launch/python-program.e2e.test.ts"],
    // Another Python may come first on PATH.
    isUsable: () => spawnSync("/usr/bin/python3", ["-c", "import mpi4py.MPI"]).status === 0,
  },
];

function isInstalled(program, folders = []) {
  const searched = [...folders, ...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  return searched.some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function isMissing({ program, folders, isUsable }) {
  return !isInstalled(program, folders) || isUsable?.() === false;
}

/** Keeps Debian from starting the services of installed servers, which would occupy their default ports. */
async function withoutServices(install) {
  const policy = "/usr/sbin/policy-rc.d";
  const isOurs = !existsSync(policy);
  const remove = () => rmSync(policy, { force: true });
  if (isOurs) {
    writeFileSync(policy, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
    // A failing step exits the process.
    process.once("exit", remove);
  }
  await install();
  if (isOurs) remove();
}

/**
 * Installs missing programs where possible: those of the tests or those of the tour. Returns the ones that are still missing. Tests
 * require them; the tour skips the workloads that need them.
 */
export async function installSystemPrograms(use) {
  const required = programs.filter((entry) => use === "tests" || entry.isInTour);
  const absent = required.filter(isMissing);
  const hasApt = spawnSync("apt-get", ["--version"], { stdio: "ignore" }).status === 0;
  if (absent.length > 0 && hasApt && process.getuid?.() === 0) {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const packages = absent.flatMap((entry) => entry.packages);
    const act = use === "tests" ? step : attempt;
    const install = ["install", "-y", "-qq", "--no-install-recommends", ...packages];
    if ((await act("apt-get update", "apt-get", ["update", "-qq"], { env })) === undefined)
      await withoutServices(() => act(`apt-get install ${packages.join(" ")}`, "apt-get", install, { env }));
  }
  return required.filter(isMissing);
}
