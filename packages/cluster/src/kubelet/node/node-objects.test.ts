import { Namespace, Pod, type PodObject, ServiceAccount } from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { expect, test } from "vitest";
import { createNodeObjects, issueTokensBy } from "./node-objects.ts";

const pod: PodObject = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "p", namespace: "n", uid: "u" },
  spec: { containers: [], serviceAccountName: "robot" },
};

test("renews a Pod's token after four fifths of its lifetime", async () => {
  let now = 0;
  const asked: unknown[] = [];
  const objects = createNodeObjects(
    {} as Client,
    () => [],
    () => now,
    (request) => {
      asked.push(request);
      return Promise.resolve(`token ${asked.length}`);
    },
  );
  const token = (audience?: string): Promise<string> =>
    objects.token(pod, { expirationSeconds: 600, ...(audience === undefined ? {} : { audience }) });
  expect(await token()).toBe("token 1");
  now = 479_999;
  expect(await token()).toBe("token 1");
  expect(await token("vault")).toBe("token 2");
  now = 480_000;
  expect(await token()).toBe("token 3");
  expect(asked[1]).toEqual({
    namespace: "n",
    account: "robot",
    audiences: ["vault"],
    expirationSeconds: 600,
    pod: { name: "p", uid: "u" },
  });
});

test("requires the path of a local volume to exist, but not that of a host path", async () => {
  const folderOf = (spec: object) => {
    const claim = { spec: { volumeName: "v" }, status: { phase: "Bound" } };
    const get = ({ kind }: { readonly kind: string }) =>
      Promise.resolve(kind === "PersistentVolume" ? { metadata: {}, spec } : claim);
    const services = () => [];
    return createNodeObjects({ get } as unknown as Client, services, () => 0).claimFolder("n", "c");
  };
  expect(await folderOf({ local: { path: "/disk" } })).toEqual({ path: "/disk", mustExist: true, isProvisioned: false });
  expect(await folderOf({ hostPath: { path: "/data" } })).toEqual({ path: "/data", isProvisioned: false });
});

test("requests a token bound to the Pod, and passes on a rejection", async () => {
  await using environment = await startTestEnvironment();
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(Namespace, { metadata: { name: "n" } });
  await client.create(ServiceAccount, { metadata: { namespace: "n", name: "robot" } });
  const spec = { serviceAccountName: "robot", containers: [{ name: "c", image: "host" }] };
  const { metadata } = await client.create(Pod, { metadata: { namespace: "n", name: "p" }, spec });
  const issue = issueTokensBy(client);
  const request = { namespace: "n", account: "robot", audiences: ["vault"], expirationSeconds: 600 };
  const token = await issue({ ...request, pod: { name: "p", uid: metadata.uid ?? "" } });
  const claims: unknown = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
  expect(claims).toMatchObject({
    sub: "system:serviceaccount:n:robot",
    aud: ["vault"],
    "kubernetes.io": { pod: { name: "p", uid: metadata.uid } },
  });
  await expect(issue({ ...request, account: "nobody", pod: { name: "p", uid: metadata.uid ?? "" } })).rejects.toThrow(
    /not found/,
  );
});
