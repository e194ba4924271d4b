import { Sandbox, SandboxPool } from "@keelson/sandboxes";
import type { FamilyTour } from "./family-tour.ts";
import { follow, secondsSince } from "./follow.ts";
import { applyManifest, readExample, removeOld } from "./manifests.ts";

/** A pool with two sandboxes: one completes, the other keeps running. */
export const sandboxesTour: FamilyTour = {
  family: "sandboxes",
  title: "a pool and two sandboxes (examples/sandboxes/hello.yaml)",
  needs: [{ program: "bwrap", package: "bubblewrap" }],
  async run(context) {
    const { client, clock, signal } = context;
    for (const name of ["hello", "counter"]) await removeOld(client, Sandbox, name, signal);
    const started = clock.monotonic();
    for (const manifest of readExample("sandboxes/hello.yaml"))
      await applyManifest(client, [SandboxPool, Sandbox], manifest, signal);
    const [hello, counter] = await follow(
      context,
      Sandbox,
      ["hello", "counter"],
      ({ status }) => ({
        state: status?.phase ?? "",
        note: status?.assignedPod ? `on ${status.assignedPod}` : "",
        mood:
          status?.phase === "Succeeded"
            ? "good"
            : status?.phase === "Failed" || status?.phase === "Lost"
              ? "bad"
              : status?.phase === "Running"
                ? "running"
                : "waiting",
      }),
      ({ metadata, status }) =>
        status?.phase === "Failed" ||
        status?.phase === "Lost" ||
        status?.phase === (metadata.name === "counter" ? "Running" : "Succeeded"),
    );
    return {
      succeeded: hello?.status?.phase === "Succeeded" && counter?.status?.phase === "Running",
      summary: `Sandboxes: hello ${hello?.status?.phase ?? "unknown"}, counter ${counter?.status?.phase ?? "unknown"}, in ${secondsSince(context, started)}`,
    };
  },
  async cleanUp({ client, signal }) {
    for (const name of ["hello", "counter"]) await removeOld(client, Sandbox, name, signal);
    await removeOld(client, SandboxPool, "default-pool", signal);
  },
};
