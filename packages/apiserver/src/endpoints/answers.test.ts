import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { ask as send, type Asked, refusal as refused } from "./testing/asker.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

const ask = (...asked: Asked) => send(environment, ...asked);
const refusal = (...asked: Asked) => refused(environment, ...asked);

const maps = "/api/v1/namespaces/default/configmaps";
const pods = "/api/v1/namespaces/default/pods";
const map = (name: string, metadata: object = {}, more: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...metadata },
  ...more,
});
const pod = (name: string, spec: object = {}): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { containers: [{ name: "c", image: "i" }], ...spec },
});
const owner = (uid: string, apiVersion = "v1"): object => ({ apiVersion, kind: "ConfigMap", name: "o", uid });

describe("writes that are refused", () => {
  it.each<[string, Asked, string[]]>([
    ["a resourceVersion at creation", ["POST", maps, map("a", { resourceVersion: "5" })], ["500"]],
    ["an empty dryRun", ["POST", `${maps}?dryRun=`, map("a")], ["422 Invalid", "FieldValueNotSupported dryRun"]],
    ["a replace that names a uid of what is not there", ["PUT", `${maps}/gone`, map("gone", { uid: "u" })], ["409 Conflict"]],
    [
      "a finalizer without a domain",
      ["POST", maps, map("a", { finalizers: ["mine"] })],
      ["422 Invalid", "FieldValueInvalid metadata.finalizers[0]"],
    ],
    [
      "both finalizers of the garbage collector",
      ["POST", maps, map("a", { finalizers: ["orphan", "foregroundDeletion"] })],
      ["422 Invalid", "FieldValueInvalid metadata.finalizers"],
    ],
    [
      "an owner whose version can't be one",
      ["POST", maps, map("a", { ownerReferences: [owner("u", "a/b/c")] })],
      ["422 Invalid", "FieldValueInvalid metadata.ownerReferences.apiVersion"],
    ],
    ["a Pod of no PriorityClass", ["POST", pods, pod("a", { priorityClassName: "nonesuch" })], ["403 Forbidden"]],
    ["a Pod that names its priority", ["POST", pods, pod("a", { priority: 5 })], ["403 Forbidden"]],
  ])("%s", async (_, request, answer) => {
    expect(await refusal(...request)).toEqual(answer);
  });

  it("a patch that leaves no object of the kind, without naming a kind", async () => {
    await ask("POST", maps, map("typed"));
    const { body } = await ask("PATCH", `${maps}/typed`, { data: 5 }, "merge");
    expect(body["details"]).toEqual({ causes: [expect.objectContaining({ field: "patch" })] });
  });
});

describe("what a client may leave out or say twice", () => {
  it("an owner that is named twice counts once, and the client is warned", async () => {
    const { body, warnings } = await ask("POST", maps, map("owned", { ownerReferences: [owner("u"), owner("u"), owner("v")] }));
    expect(body["metadata"].ownerReferences.map(({ uid }: { uid: string }) => uid)).toEqual(["u", "v"]);
    expect(warnings).toEqual([expect.stringContaining("duplicate UID(s) observed: u")]);
  });

  it("a namespace of what has none is dropped", async () => {
    const kind = { apiVersion: "v1", kind: "Namespace", metadata: { name: "bare", namespace: "other" } };
    expect((await ask("POST", "/api/v1/namespaces", kind)).body["metadata"].namespace).toBeUndefined();
    expect((await ask("PUT", "/api/v1/namespaces/bare", kind)).code).toBe(200);
  });

  it("a null in a map of texts is an empty text", async () => {
    expect((await ask("POST", maps, map("nulls", {}, { data: { a: null } }))).body["data"]).toEqual({ a: "" });
  });

  it("a template without metadata has empty ones", async () => {
    const template = { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } };
    const spec = { schedule: "@daily", jobTemplate: { spec: { template } } };
    const path = "/apis/batch/v1/namespaces/default/cronjobs";
    const { body } = await ask("POST", path, { apiVersion: "batch/v1", kind: "CronJob", metadata: { name: "c" }, spec });
    expect(body["spec"].jobTemplate).toMatchObject({ metadata: {}, spec: { template: { metadata: {} } } });
    expect(JSON.stringify(body["metadata"].managedFields)).not.toContain("f:metadata");
  });

  it("a required number is 0, and told to be out of range rather than absent", async () => {
    const path = "/api/v1/namespaces/default/services";
    const service = { apiVersion: "v1", kind: "Service", metadata: { name: "s" }, spec: { ports: [{}] } };
    expect(await refusal("POST", path, service)).toContain("FieldValueInvalid spec.ports[0].port");
  });
});

describe("the status of a Pod", () => {
  const status = (name: string, value: object) => ask("PATCH", `${pods}/${name}/status`, { status: value }, "merge");
  beforeAll(async () => {
    await ask("POST", pods, pod("p"));
    await ask("POST", pods, pod("once", { restartPolicy: "Never" }));
  });

  it("has what Go's zero values are where a container's status leaves it out", async () => {
    const { body } = await status("p", { containerStatuses: [{ name: "c", state: { running: {} } }] });
    expect(body["status"].containerStatuses).toEqual([
      {
        name: "c",
        image: "",
        imageID: "",
        ready: false,
        restartCount: 0,
        state: { running: { startedAt: null } },
        lastState: {},
      },
    ]);
  });

  it("has one address in two places, of which the old one wins", async () => {
    expect((await status("p", { podIPs: [{ ip: "192.0.2.1" }] })).body["status"].podIP).toBe("192.0.2.1");
    expect((await status("p", { podIP: "192.0.2.2" })).body["status"].podIPs).toEqual([{ ip: "192.0.2.2" }]);
  });

  it.each([
    [{ podIP: "far" }, "FieldValueInvalid status.podIPs[0]"],
    [{ podIP: "192.0.2.2", podIPs: [{ ip: "192.0.2.2" }, { ip: "192.0.2.3" }] }, "FieldValueInvalid status.podIPs"],
    [{ nominatedNodeName: "No_Node" }, "FieldValueInvalid status.nominatedNodeName"],
  ])("is refused: %j", async (value, cause) => {
    expect(await refusal("PATCH", `${pods}/p/status`, { status: value }, "merge")).toEqual(["422 Invalid", cause]);
  });

  it("does not bring a container back that is not restarted", async () => {
    expect((await status("once", { containerStatuses: [{ name: "c", state: { terminated: {} } }] })).code).toBe(200);
    const running = { containerStatuses: [{ name: "c", state: { running: {} } }] };
    expect(await refusal("PATCH", `${pods}/once/status`, { status: running }, "merge")).toEqual([
      "422 Invalid",
      "FieldValueForbidden status.containerStatuses[0].state",
    ]);
  });

  it("keeps the ephemeral containers that came", async () => {
    const path = `${pods}/p/ephemeralcontainers`;
    const set = (containers: object[]) => ({ spec: { ephemeralContainers: containers } });
    expect((await ask("PATCH", path, set([{ name: "e", image: "i" }]), "strategic")).code).toBe(200);
    const refused = ["422 Invalid", "FieldValueForbidden spec.ephemeralContainers"];
    expect(await refusal("PATCH", path, set([{ name: "e", image: "j" }]), "strategic")).toEqual(refused);
    expect(await refusal("PATCH", path, set([]), "merge")).toEqual(refused);
    expect((await refusal("PATCH", `${pods}/p`, set([{ name: "f", image: "i" }]), "strategic"))[0]).toBe("422 Invalid");
  });
});
