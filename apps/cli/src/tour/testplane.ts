import { IntegrationTest } from "@keelson/testplane";
import type { FamilyTour } from "./family-tour.ts";
import { follow, secondsSince } from "./follow.ts";
import { applyManifest, readExample, removeOld } from "./manifests.ts";

/** An IntegrationTest of four steps in three rounds. */
export const testplaneTour: FamilyTour = {
  family: "testplane",
  title: "a test in three rounds (examples/testplane/hello.yaml)",
  needs: [],
  async run(context) {
    const { client, clock, signal } = context;
    await removeOld(client, IntegrationTest, "hello", signal);
    const started = clock.monotonic();
    for (const manifest of readExample("testplane/hello.yaml"))
      await applyManifest(client, [IntegrationTest], manifest, signal);
    const [found] = await follow(
      context,
      IntegrationTest,
      ["hello"],
      ({ status }) => ({
        state: status?.phase ?? "",
        note: status?.message ?? "",
        mood:
          status?.phase === "Succeeded"
            ? "good"
            : status?.phase === "Failed"
              ? "bad"
              : status?.phase === "Running"
                ? "running"
                : "waiting",
      }),
      ({ status }) => status?.phase === "Succeeded" || status?.phase === "Failed" || status?.phase === "Aborted",
    );
    const phase = found?.status?.phase;
    return {
      succeeded: phase === "Succeeded",
      summary: `IntegrationTest hello ${phase ?? "ended"} in ${secondsSince(context, started)}`,
    };
  },
};
