import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { App } from "@keelson/middleware";
import type { FamilyTour, TourContext } from "./family-tour.ts";
import { follow, secondsSince } from "./follow.ts";
import { applyManifest, readExample, removeOld } from "./manifests.ts";

const name = "cache";

/** Redis with a primary and two replicas, each with a volume, and a parameter change without a restart. */
export const middlewareTour: FamilyTour = {
  family: "middleware",
  title: "Redis with two replicas, and a hot parameter (examples/middleware/redis.yaml)",
  needs: [{ program: "redis-server", package: "redis-server" }],
  async run(context) {
    const { client, clock, signal } = context;
    await removeOld(client, App, name, signal);
    const [manifest] = readExample("middleware/redis.yaml");
    if (manifest === undefined) throw new Error("examples/middleware/redis.yaml is empty");
    const started = clock.monotonic();
    await applyManifest(client, [App], manifest, signal);
    const provisioned = await waitForPlan(context);
    const provisionedIn = secondsSince(context, started);
    const changed = clock.monotonic();
    await applyManifest(client, [App], withMaxmemory(manifest, "96mb"), signal);
    const hot = provisioned.succeeded ? await waitForPlan(context) : provisioned;
    return {
      succeeded: hot.succeeded,
      summary: hot.succeeded
        ? `App ${name} Running: 3 Redis Pods in ${provisionedIn}, maxmemory changed without a restart in ${secondsSince(context, changed)}`
        : `App ${name} failed: ${hot.message}`,
    };
  },
  cleanUp: ({ client, signal }) => removeOld(client, App, name, signal),
};

/** Waits until the plan of the App's latest generation has ended. */
async function waitForPlan(context: TourContext): Promise<{ readonly succeeded: boolean; readonly message: string }> {
  const isEnded = ({ metadata, status }: DeepReadonly<App>): boolean =>
    status?.phase === "Failed" ||
    (status?.acceptedGeneration === metadata.generation &&
      status?.plan?.generation === metadata.generation &&
      status?.plan?.outcome !== undefined);
  const [app] = await follow(
    context,
    App,
    [name],
    ({ status }) => ({
      state: status?.phase ?? "",
      note: status?.message ?? "",
      mood:
        status?.phase === "Running"
          ? "good"
          : status?.phase === "Failed"
            ? "bad"
            : status?.phase === undefined
              ? "waiting"
              : "running",
    }),
    isEnded,
  );
  return { succeeded: app?.status?.plan?.outcome === "Succeeded", message: app?.status?.message ?? "" };
}

function withMaxmemory(manifest: KubernetesObject, value: string): KubernetesObject {
  const { spec } = manifest as KubernetesObject & { readonly spec: { readonly config: { readonly redisConfig: object } } };
  const changed = { ...spec, config: { ...spec.config, redisConfig: { ...spec.config.redisConfig, maxmemory: value } } };
  return { ...manifest, ...{ spec: changed } };
}
