import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { RhinoJob } from "@keelson/mpi";
import type { FamilyTour } from "./family-tour.ts";
import { follow, secondsSince } from "./follow.ts";
import { applyManifest, examplePath, readExample, removeOld } from "./manifests.ts";

/** An MPI program on four ranks, compiled from source. */
export const mpiTour: FamilyTour = {
  family: "mpi",
  title: "pi on four ranks (examples/mpi/pi.yaml)",
  needs: [
    { program: "mpiexec", package: "openmpi-bin" },
    { program: "mpicc", package: "libopenmpi-dev" },
    { program: "gcc", package: "gcc libc6-dev" },
  ],
  async run(context) {
    const { client, clock, dir, signal } = context;
    const program = join(dir, "pi");
    await promisify(execFile)("mpicc", ["-O2", "-o", program, examplePath("mpi/pi.c")], { signal });
    await removeOld(client, RhinoJob, "pi", signal);
    const started = clock.monotonic();
    for (const manifest of readExample("mpi/pi.yaml")) {
      const spec = { ...(manifest as typeof manifest & { readonly spec: object }).spec, appExec: program };
      await applyManifest(client, [RhinoJob], { ...manifest, spec } as typeof manifest, signal);
    }
    const [job] = await follow(
      context,
      RhinoJob,
      ["pi"],
      ({ status }) => ({
        state: status?.jobStatus ?? "",
        note: status?.message ?? "",
        mood:
          status?.jobStatus === "Completed"
            ? "good"
            : status?.jobStatus === "Failed"
              ? "bad"
              : status?.jobStatus === "Running"
                ? "running"
                : "waiting",
      }),
      ({ status }) => status?.jobStatus === "Completed" || status?.jobStatus === "Failed" || status?.jobStatus === "ImageError",
    );
    const status = job?.status;
    return {
      succeeded: status?.jobStatus === "Completed",
      summary: `RhinoJob pi ${status?.jobStatus ?? "ended"}: 4 ranks, exit code ${status?.exitCode ?? "unknown"}, in ${secondsSince(context, started)}`,
    };
  },
};
