import { createVirtualClock } from "@keelson/api-machinery/testing";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { requestInfo } from "../endpoints/request-info.ts";
import { sendRequest } from "../endpoints/testing/send-request.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { type Admission, FlowController } from "./flow-controller.ts";
import { WorkEstimator } from "./work-estimate.ts";

let environment: TestEnvironment;
let flow: FlowController;
beforeEach(async () => {
  environment = await startTestEnvironment();
  flow = new FlowController({ store: environment.store, clock: systemClock, seats: 49, maxWaitMs: 50 });
});
afterEach(async () => {
  flow.close();
  await environment.stop();
});

const group = "/apis/flowcontrol.apiserver.k8s.io/v1";
const info = (method: string, path: string) => requestInfo({ method, path });
const lease = info("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1");
const maps = info("GET", "/api/v1/namespaces/default/configmaps");

const node: UserInfo = { username: "system:node:node-1", groups: ["system:nodes", "system:authenticated"] };
const account: UserInfo = {
  username: "system:serviceaccount:ns:robot",
  groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
};
const jane: UserInfo = { username: "jane", groups: ["system:authenticated"] };
const admin: UserInfo = { username: "root", groups: ["system:masters", "system:authenticated"] };
const anonymous: UserInfo = { username: "system:anonymous", groups: ["system:unauthenticated"] };

async function namesOf({ headers }: Admission): Promise<string[]> {
  const nameOf = async (plural: string, uid: string | undefined): Promise<string> => {
    for (const { object } of environment.store.list(`flowcontrol.apiserver.k8s.io/${plural}/`).items) {
      if (object.metadata.uid === uid) return object.metadata.name ?? "";
    }
    return "";
  };
  return [
    await nameOf("flowschemas", headers["x-kubernetes-pf-flowschema-uid"]),
    await nameOf("prioritylevelconfigurations", headers["x-kubernetes-pf-prioritylevel-uid"]),
  ];
}

describe("flow control", () => {
  it.each([
    ["a node's lease", node, lease, ["system-node-high", "node-high"]],
    ["a node's Pods", node, info("GET", "/api/v1/pods"), ["system-nodes", "system"]],
    ["a service account", account, maps, ["service-accounts", "workload-low"]],
    ["an ordinary user", jane, maps, ["global-default", "global-default"]],
    ["an administrator", admin, maps, ["exempt", "exempt"]],
    ["an anonymous probe", anonymous, info("GET", "/readyz"), ["probes", "exempt"]],
    [
      "a controller's leader election",
      { ...account, username: "system:serviceaccount:kube-system:c" },
      lease,
      ["system-leader-election", "leader-election"],
    ],
    [
      "the scheduler",
      { username: "system:kube-scheduler", groups: ["system:authenticated"] },
      info("GET", "/api/v1/nodes"),
      ["kube-scheduler", "workload-high"],
    ],
  ])("classifies %s by the default FlowSchemas", async (_, user, request, expected) => {
    expect(await namesOf(await flow.admit(user, request, 1))).toEqual(expected);
  });

  it("limits the open streams of a user, and of all service accounts of a namespace", async () => {
    const exec = info("GET", "/api/v1/namespaces/ns/pods/p/exec");
    const logs = info("GET", "/api/v1/namespaces/ns/pods/p/log");
    const open = await Promise.all(Array.from({ length: 128 }, () => flow.admit(account, exec, 1)));
    const other = { ...account, username: "system:serviceaccount:ns:other" };
    await expect(flow.admit(other, logs, 1)).rejects.toMatchObject({
      status: {
        code: 429,
        message:
          "the service accounts of namespace ns may have at most 128 log, exec, attach, port-forward and proxy requests open",
      },
    });
    await Promise.all(Array.from({ length: 128 }, () => flow.admit(jane, exec, 1)));
    await expect(flow.admit(jane, exec, 1)).rejects.toMatchObject({ status: { code: 429 } });
    await Promise.all(Array.from({ length: 300 }, () => flow.admit(admin, exec, 1)));
    open[0]?.release();
    open[0]?.release();
    (await flow.admit(other, logs, 1)).release();
    await flow.admit(other, logs, 1);
    await expect(flow.admit(other, logs, 1)).rejects.toMatchObject({ status: { code: 429 } });
  });

  it("rejects the requests of one user beyond its level and queue with a time to retry, and still serves nodes", async () => {
    const results = await Promise.allSettled(Array.from({ length: 500 }, () => flow.admit(jane, maps, 1)));
    const rejected = results.filter((result) => result.status === "rejected");
    expect(rejected.length).toBeGreaterThan(100);
    expect(rejected[0]).toMatchObject({
      reason: { status: { code: 429, reason: "TooManyRequests", details: { retryAfterSeconds: 1 } } },
    });
    (await flow.admit(node, lease, 1)).release();
    (await flow.admit(account, maps, 1)).release();
  });

  it("lends idle seats of other levels to a busy one, but not those of nodes' leases, and takes them back", async () => {
    const clock = createVirtualClock();
    const lending = new FlowController({ store: environment.store, clock, seats: 49, maxWaitMs: 1_000_000 });
    try {
      const seatsOf = (name: string): number => lending.usage().get(name)?.seats ?? 0;
      const before = { accounts: seatsOf("workload-low"), leases: seatsOf("leader-election") };
      const running: Admission[] = [];
      const requests = Array.from({ length: 100 }, () => lending.admit(account, maps, 1).then((seat) => running.push(seat)));
      await clock.advance(10_000);
      expect(seatsOf("workload-low")).toBeGreaterThan(before.accounts + 5);
      expect(running.length).toBe(seatsOf("workload-low"));
      expect(seatsOf("leader-election")).toBe(before.leases);
      const total = [...lending.usage().values()].reduce((sum, { seats }) => sum + seats, 0);
      expect(total).toBeLessThanOrEqual(49 + lending.usage().size);
      while (running.length > 0) {
        running.pop()?.release();
        await Promise.resolve();
      }
      await Promise.all(requests);
      for (const seat of running) seat.release();
      // Once the demand of the past has faded, every level has its own seats again, and no timer is left.
      for (let period = 0; period < 400; period++) await clock.advance(10_000);
      expect(seatsOf("workload-low")).toBe(before.accounts);
      expect(clock.pendingTimers).toBe(0);
    } finally {
      lending.close();
    }
  });

  it("gives no seat of a level to streams such as exec", async () => {
    const exec = info("POST", "/api/v1/namespaces/default/pods/p/exec");
    const admissions = await Promise.all(Array.from({ length: 128 }, () => flow.admit(jane, exec, 1)));
    expect(admissions).toHaveLength(128);
    expect([...flow.usage().values()].reduce((sum, { occupied }) => sum + occupied, 0)).toBe(0);
    (await flow.admit(jane, maps, 1)).release();
  });

  it("follows changes of its configuration", async () => {
    const schema = {
      metadata: { name: "jane-first" },
      spec: {
        priorityLevelConfiguration: { name: "exempt" },
        matchingPrecedence: 50,
        rules: [
          {
            subjects: [{ kind: "User", user: { name: "jane" } }],
            resourceRules: [{ verbs: ["*"], apiGroups: ["*"], resources: ["configmaps"], namespaces: ["default"] }],
          },
        ],
      },
    };
    expect((await sendRequest(environment, "POST", `${group}/flowschemas`, schema)).code).toBe(201);
    expect(await namesOf(await flow.admit(jane, maps, 1))).toEqual(["jane-first", "exempt"]);
    expect((await sendRequest(environment, "DELETE", `${group}/flowschemas/jane-first`)).code).toBe(200);
    expect(await namesOf(await flow.admit(jane, maps, 1))).toEqual(["global-default", "global-default"]);
  });
});

describe("the flow control API", () => {
  it("serves the default objects with defaults and rejects invalid ones by field", async () => {
    const { body } = await sendRequest(environment, "GET", `${group}/prioritylevelconfigurations/workload-low`);
    expect(body["spec"]).toEqual({
      type: "Limited",
      limited: {
        nominalConcurrencyShares: 100,
        lendablePercent: 90,
        limitResponse: { type: "Queue", queuing: { queues: 128, handSize: 6, queueLengthLimit: 50 } },
      },
    });
    const level = {
      metadata: { name: "l" },
      spec: { type: "Limited", limited: { limitResponse: { type: "Queue", queuing: {} } } },
    };
    const created = await sendRequest(environment, "POST", `${group}/prioritylevelconfigurations`, level);
    expect(created.body["spec"].limited).toEqual({
      nominalConcurrencyShares: 30,
      lendablePercent: 0,
      limitResponse: { type: "Queue", queuing: { queues: 64, handSize: 8, queueLengthLimit: 50 } },
    });
    const invalid = { metadata: { name: "f" }, spec: { matchingPrecedence: 20_000, priorityLevelConfiguration: {} } };
    const rejected = await sendRequest(environment, "POST", `${group}/flowschemas`, invalid);
    expect(rejected.body["details"].causes.map(({ field }: { field: string }) => field).sort()).toEqual([
      "spec.matchingPrecedence",
      "spec.priorityLevelConfiguration.name",
    ]);
  });
});

describe("the work estimate", () => {
  it("needs a seat for each hundred objects or megabyte of the collection's last list, at most ten", () => {
    const estimator = new WorkEstimator();
    expect(estimator.seatsOf(maps)).toBe(1);
    estimator.record(maps, { items: 250, bytes: 1_000 });
    expect([estimator.seatsOf(maps), estimator.seatsOf(maps, "100")]).toEqual([3, 1]);
    estimator.record(maps, { items: 16, bytes: 16 * 1024 * 1024 });
    expect(estimator.seatsOf(maps)).toBe(10);
    expect(estimator.seatsOf(lease)).toBe(1);
  });
});
