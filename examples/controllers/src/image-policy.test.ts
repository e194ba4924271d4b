import { Deployment, EventsEvent } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { ImagePolicy, imagePolicyController } from "./image-policy.ts";
import { runController } from "./testing/run-controller.ts";

const deployment = (name: string, image: string) => {
  const labels = { app: name };
  return {
    metadata: { namespace: "default", name },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [{ name, image }] } } },
  };
};

test("reports Deployments with images of other registries, until they or the policy change", async () => {
  await using running = await runController(imagePolicyController, [ImagePolicy]);
  const { client } = running;
  await client.create(Deployment, deployment("good", "registry.example.com/good:1"));
  await client.create(Deployment, deployment("bad", "docker.io/library/bad:1"));
  await client.create(ImagePolicy, { metadata: { name: "own" }, spec: { allowedRegistries: ["registry.example.com"] } });
  const violations = async (): Promise<readonly string[] | undefined> =>
    (await client.get(ImagePolicy, { name: "own" })).status?.violations;
  await expect.poll(violations).toEqual(["default/bad"]);
  await expect
    .poll(async () => (await client.list(EventsEvent)).items.map(({ reason, regarding }) => [reason, regarding?.name]))
    .toEqual([["ForbiddenImage", "bad"]]);

  await client.create(Deployment, deployment("worse", "registry.example.com.evil.org/worse:1"));
  await expect.poll(violations).toEqual(["default/bad", "default/worse"]);

  const fixed = deployment("bad", "registry.example.com/bad:1").spec;
  await client.patch(Deployment, { namespace: "default", name: "bad" }, { type: "merge", body: { spec: fixed } });
  await expect.poll(violations).toEqual(["default/worse"]);

  const spec = { allowedRegistries: ["registry.example.com", "registry.example.com.evil.org"] };
  await client.patch(ImagePolicy, { name: "own" }, { type: "merge", body: { spec } });
  await expect.poll(violations).toEqual([]);
});
