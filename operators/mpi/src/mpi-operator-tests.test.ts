import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const page = readFileSync(join(root, "docs/reference/mpijobs.md"), "utf8");
const rows = page
  .slice(page.indexOf("| Test of mpi-operator"))
  .split("\n")
  .slice(2)
  .filter((line) => line.startsWith("|"))
  .map((line) => line.split("|").map((cell) => cell.trim()));

/** The test functions of mpi-operator at caa3c47. */
const functions =
  "SetDefaults ValidateMPIJob DoNothingWithInvalidKey DoNothingWithNonexistentMPIJob DoNothingWithInvalidMPIJob DoNothingWithMPIJobManagedExternally AllResourcesCreated LauncherNotControlledByUs LauncherSucceeded LauncherSucceededWithRunningPod LauncherFailed ConfigMapNotControlledByUs WorkerServiceNotControlledByUs LauncherServiceNotControlledByUs SecretNotControlledByUs ShutdownWorker CreateSuspendedMPIJob SuspendedRunningMPIJob ResumeMPIJob UnsuspendLauncherUpdateFailureDoesNotPoisonCache ResumeMPIJobWithExistingLauncher ResumeMPIJobClearsStartTime WorkerNotControlledByUs LauncherActiveWorkerNotReady LauncherActiveWorkerReady WorkerReady NewLauncherAndWorker NewConfigMap UpdateDiscoverHostsInConfigMap NewPodGroup CalcPriorityClassName DecoratePodTemplateSpec CalculatePGMinResources AddResources CalculateMinAvailable ReplicasOrder MPIJobSuccess MPIJobWaitWorkers MPIJobResumingAndSuspending MPIJobFailure MPIJobWithSchedulerPlugins MPIJobWithVolcanoScheduler MPIJobManagedExternally";

function testSources(): string {
  const folders = ["operators/mpi/src", "apps/cli/src/e2e"].map((folder) => join(root, folder));
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".test.ts") && !file.startsWith("mpi-operator-tests"))
      .map((file) => join(folder, file)),
  );
  return files.map((file) => readFileSync(file, "utf8")).join("\n");
}

describe("the table of mpi-operator's tests", () => {
  it("lists every test function", () => {
    const listed = rows.map(([, theirs = ""]) => theirs).join(", ");
    const missing = functions.split(" ").filter((name) => !new RegExp(`\\bTest${name}\\b`).test(listed));
    expect(missing).toEqual([]);
  });

  it("names tests that exist, or a reason", () => {
    const sources = testSources();
    for (const [, theirs, ours = "", difference] of rows) {
      if (ours === "") expect(difference, theirs).not.toBe("");
      else expect(sources.includes(`"${ours}"`), ours).toBe(true);
    }
  });
});
