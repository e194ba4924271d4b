import { createDeferred } from "@keelson/api-machinery/deferred";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { EventsEvent, Namespace, NetworkPolicy } from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { createHash } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type NetworkPolicies, startNetworkPolicies } from "./network-policies.ts";
import { networkNames } from "./network-names.ts";

let environment: TestEnvironment;
let client: Client;
let clock: VirtualClock;
let followed: NetworkPolicies | undefined;
/** The rule sets that were applied. */
let applied: string[];
/** Rejects rule sets as nftables does. */
let isRejected: (table: string) => boolean;
/** Holds back the application of rules. */
let gate: Promise<void> | undefined;

beforeEach(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  clock = createVirtualClock();
  applied = [];
  isRejected = () => false;
  gate = undefined;
});

afterEach(async () => {
  await followed?.stop();
  followed = undefined;
  await environment.stop();
});

const start = (): NetworkPolicies => {
  const names = networkNames("/data", "10.70", "10.134");
  const apply = async (table: string, isCheck: boolean): Promise<void> => {
    await gate;
    if (isRejected(table)) throw new Error("nft: rejected");
    if (!isCheck) applied.push(table);
  };
  const parts = {
    clock,
    random: () => 0.5,
    log: silentLogger,
    names,
    nodeName: "node",
    apply,
    dns: { udpPort: 40_053, tcpPort: 40_054 },
  };
  followed = startNetworkPolicies({ client, podClient: client, ...parts });
  return followed;
};
const pod = (uid: string, app = "a") => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: uid, namespace: "default", uid, labels: { app } },
  spec: { containers: [{ name: "c", image: "i" }] },
});
const policy = (name: string, cidrs: readonly string[]) => ({
  metadata: { name, namespace: "default" },
  spec: { podSelector: {}, ingress: [{ from: cidrs.map((cidr) => ({ ipBlock: { cidr } })) }] },
});
/** The chain that a policy's group jumps to. */
const chainOf = (name: string): string => {
  const id = createHash("sha256").update(`default/${name}`).digest("hex").slice(0, 20);
  return (
    applied
      .at(-1)
      ?.match(new RegExp(`chain ingress-policy-${id} \\{([^}]*)\\}`))?.[1]
      ?.trim() ?? "absent"
  );
};
const reasons = async (): Promise<readonly string[]> =>
  (await client.list(EventsEvent)).items.map(({ reason = "", regarding }) => `${regarding?.name}: ${reason}`).sort();

test("admits a Pod when rules that consider it are in effect, and applies only what has changed", async () => {
  const policies = start();
  await policies.admit(pod("one"), "10.70.0.2");
  expect(applied.at(-1)).toContain("elements = { 10.70.0.2 }");
  const count = applied.length;
  await client.create(Namespace, { metadata: { name: "unrelated", labels: { team: "x" } } });
  await policies.admit(pod("one"), "10.70.0.2");
  expect(applied).toHaveLength(count);
  await Promise.all([policies.admit(pod("two"), "10.70.0.3"), policies.admit(pod("three"), "10.70.0.4")]);
  expect(applied).toHaveLength(count + 1);
  expect(applied.at(-1)).toContain("elements = { 10.70.0.2, 10.70.0.3, 10.70.0.4 }");
  policies.forget("two");
  await expect.poll(() => applied.at(-1)).toContain("elements = { 10.70.0.2, 10.70.0.4 }");
});

test("retries rules that are rejected, and rejects the Pods that wait for them", async () => {
  isRejected = () => true;
  const policies = start();
  await expect(policies.admit(pod("one"), "10.70.0.2")).rejects.toThrow("nft: rejected");
  isRejected = () => false;
  await expect.poll(() => clock.advance(5_000).then(() => applied.length)).toBeGreaterThan(0);
  await policies.admit(pod("one"), "10.70.0.2");
});

test("a Pod stops waiting for its rules after 30 seconds, when it is forgotten and when enforcement stops", async () => {
  const held = createDeferred<void>();
  gate = held.promise;
  const policies = start();
  const results = ["one", "two"].map((uid) => policies.admit(pod(uid), `10.70.0.${uid.length + Number(uid === "two")}`));
  const outcomes = Promise.allSettled(results);
  policies.forget("two");
  await expect(results[1]).rejects.toThrow("the Pod was removed before its rules were in effect");
  await clock.advance(30_000);
  await expect(results[0]).rejects.toMatchObject({
    code: "Timeout",
    message: expect.stringContaining("not in effect after 30 s"),
  });
  await outcomes;
  const last = policies.admit(pod("last"), "10.70.0.9");
  const stopping = policies.stop();
  await expect(last).rejects.toThrow("not enforced while the node stops");
  held.resolve();
  await stopping;
});

test("leaves out the allowances of rejected policies only, reports them, and tries them again when they change", async () => {
  for (let index = 0; index < 9; index++) await client.create(NetworkPolicy, policy(`p${index}`, [`192.0.2.${index}/32`]));
  isRejected = (table) => /192\.0\.2\.[36]\b/.test(table);
  const policies = start();
  await policies.admit(pod("one"), "10.70.0.2");
  for (let index = 0; index < 9; index++) {
    expect(chainOf(`p${index}`), `p${index}`).toEqual(index === 3 || index === 6 ? "" : expect.stringContaining("accept"));
  }
  await expect.poll(reasons).toEqual(["p3: RulesRejected", "p6: RulesRejected"]);
  await policies.admit(pod("two"), "10.70.0.3");
  await client.patch(
    NetworkPolicy,
    { name: "p3", namespace: "default" },
    { type: "merge", body: { spec: policy("p3", ["198.51.100.0/24"]).spec } },
  );
  await expect.poll(() => chainOf("p3")).toContain("accept");
  expect(chainOf("p6")).toBe("");
});

test("a policy that is too large isolates its Pods, allows nothing and is reported", async () => {
  const cidrs = Array.from({ length: 5_000 }, (_, index) => `10.${index >> 8}.${index & 255}.0/24`);
  await client.create(NetworkPolicy, policy("large", cidrs));
  await client.create(NetworkPolicy, policy("small", cidrs.slice(0, 10)));
  await start().admit(pod("one"), "10.70.0.2");
  expect(chainOf("large")).toBe("");
  expect(chainOf("small")).toContain("accept");
  await expect.poll(reasons).toEqual(["large: PolicyTooLarge"]);
});

test("applies changes that arrive while rules are applied together, and nothing when only the metadata of a policy changes", async () => {
  await client.create(NetworkPolicy, policy("p", ["192.0.2.0/24"]));
  const policies = start();
  await policies.admit(pod("one"), "10.70.0.2");
  const count = applied.length;
  await client.patch(
    NetworkPolicy,
    { name: "p", namespace: "default" },
    { type: "merge", body: { metadata: { annotations: { note: "x" } } } },
  );
  const held = createDeferred<void>();
  gate = held.promise;
  const first = policies.admit(pod("two"), "10.70.0.3");
  // The application of the second Pod's rules has begun when the others arrive.
  await clock.advance(0);
  const others = [3, 4, 5].map((index) => policies.admit(pod(`pod-${index}`), `10.70.0.${index + 1}`));
  held.resolve();
  await Promise.all([first, ...others]);
  expect(applied.length - count).toBeLessThanOrEqual(2);
  expect(applied.at(-1)).toContain("elements = { 10.70.0.2, 10.70.0.3, 10.70.0.4, 10.70.0.5, 10.70.0.6 }");
});

test("a rule for the Pods of kube-dns allows the ports of the DNS server", async () => {
  const to = [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } } }];
  const egress = [{ to, ports: [{ port: 53, protocol: "UDP" as const }] }];
  const metadata = { name: "dns", namespace: "default" };
  await client.create(NetworkPolicy, { metadata, spec: { podSelector: {}, policyTypes: ["Egress"], egress } });
  await start().admit(pod("one"), "10.70.0.2");
  await expect.poll(() => applied.at(-1)).toContain("10.70.255.254 . udp . 40053");
});
