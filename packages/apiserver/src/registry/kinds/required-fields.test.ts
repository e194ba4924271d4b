import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requestError } from "../../endpoints/testing/send-request.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { builtinSchema } from "../builtin/builtin-schemas.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

/** Causes of a create that is not stored. */
async function causes(path: string, kind: string, spec: unknown): Promise<readonly string[]> {
  const apiVersion = path.startsWith("/api/") ? "v1" : path.split("/").slice(2, 4).join("/");
  const object = { apiVersion, kind, metadata: { name: "a" }, spec };
  const [, ...rest] = await requestError(environment, "POST", `${path}?dryRun=All`, object);
  return rest;
}

const pods = "/api/v1/namespaces/default/pods";
const devices = "/apis/resource.k8s.io/v1";
const required = "FieldValueRequired";
const container = { name: "c", image: "i" };
const volumeSpec = { accessModes: ["ReadWriteOnce"], capacity: { storage: "1Gi" } };

/** Sources of `type` whose schema requires fields, with those fields; a list's elements have the rules of their own kind. */
function sourcesOf(type: string): readonly (readonly [source: string, fields: readonly string[]])[] {
  return Object.entries(builtinSchema(type).properties ?? {}).flatMap(([source, { required: fields = [] }]) =>
    fields.length === 0 || source === "claimRef" ? [] : [[source, fields] as const],
  );
}

/** Fields that the schema requires and kube-apiserver does not: their zero value is valid. */
const tolerated: readonly string[] = ["iscsi.lun", "scaleIO.secretRef"];

function expectedOf(path: string, source: string, fields: readonly string[]): readonly string[] {
  const shown = source === "gcePersistentDisk" ? "persistentDisk" : source;
  return fields
    .filter((field) => !tolerated.includes(`${source}.${field}`))
    .map((field) => `${required} ${path}.${shown}.${field}`);
}

describe("a volume source without its required fields is rejected", () => {
  it.each(sourcesOf("core.v1.Volume"))("%s in a Pod", async (source, fields) => {
    const spec = { containers: [container], volumes: [{ name: "v", [source]: {} }] };
    expect(await causes(pods, "Pod", spec)).toEqual(expect.arrayContaining([...expectedOf("spec.volumes[0]", source, fields)]));
  });

  it.each(sourcesOf("core.v1.PersistentVolumeSpec"))("%s in a PersistentVolume", async (source, fields) => {
    expect(await causes("/api/v1/persistentvolumes", "PersistentVolume", { ...volumeSpec, [source]: {} })).toEqual(
      expect.arrayContaining([...expectedOf("spec", source, fields)]),
    );
  });

  it.each([
    ["fc", {}, [`${required} spec.fc.targetWWNs`]],
    ["fc", { targetWWNs: ["a"] }, [`${required} spec.fc.lun`]],
    [
      "fc",
      { targetWWNs: ["a"], wwids: ["b"], lun: 256 },
      ["FieldValueInvalid spec.fc.targetWWNs", "FieldValueInvalid spec.fc.lun"],
    ],
    ["flocker", {}, [`${required} spec.flocker`]],
    [
      "flocker",
      { datasetName: "a/b", datasetUUID: "c" },
      ["FieldValueInvalid spec.flocker", "FieldValueInvalid spec.flocker.datasetName"],
    ],
    ["storageos", {}, [`${required} spec.storageos.volumeName`]],
    [
      "storageos",
      { volumeName: "a", secretRef: {} },
      [`${required} spec.storageos.secretRef.name`, `${required} spec.storageos.secretRef.namespace`],
    ],
    ["cinder", { volumeID: "a", secretRef: { name: "s" } }, [`${required} spec.cinder.secretRef.namespace`]],
    ["azureFile", { secretName: "a", shareName: "b", secretNamespace: "" }, [`${required} spec.azureFile.secretNamespace`]],
    ["azureDisk", { diskName: "a", diskURI: "/x", kind: "Managed" }, ["FieldValueNotSupported spec.azureDisk.diskURI"]],
    [
      "azureDisk",
      { diskName: "a", diskURI: "https://x", cachingMode: "Odd", kind: "Odd" },
      ["FieldValueNotSupported spec.azureDisk.cachingMode", "FieldValueNotSupported spec.azureDisk.kind"],
    ],
    [
      "iscsi",
      { targetPortal: "a", iqn: "odd", lun: -1 },
      ["FieldValueInvalid spec.iscsi.iqn", "FieldValueInvalid spec.iscsi.lun"],
    ],
    [
      "iscsi",
      { targetPortal: "a", iqn: "iqn.2001-04.com.example:disk", lun: 0, chapAuthSession: true },
      [`${required} spec.iscsi.secretRef`],
    ],
    [
      "iscsi",
      { targetPortal: "a", iqn: "eui.0123456789abcdef", lun: 0, initiatorName: "naa.1" },
      ["FieldValueInvalid spec.iscsi.initiatorname"],
    ],
    ["quobyte", { registry: "host", volume: "v" }, ["FieldValueInvalid spec.quobyte.registry"]],
    ["quobyte", { registry: "host:1,[::1]:2", volume: "v" }, []],
    [
      "flexVolume",
      { driver: "d", options: { "a.kubernetes.io/b": "c", d: "e" } },
      ["FieldValueInvalid spec.flexVolume.options[a.kubernetes.io/b]"],
    ],
    [
      "glusterfs",
      { endpoints: "e", path: "p", endpointsNamespace: "" },
      ["FieldValueInvalid spec.glusterfs.endpointsNamespace"],
    ],
    ["nfs", { server: "s", path: "relative" }, ["FieldValueInvalid spec.nfs.path"]],
    ["gcePersistentDisk", { pdName: "d", partition: 256 }, ["FieldValueInvalid spec.persistentDisk.partition"]],
    [
      "hostPath",
      { path: "/a/..", type: "Odd" },
      ["FieldValueInvalid spec.hostPath.path", "FieldValueNotSupported spec.hostPath.type"],
    ],
  ])("%s %j", async (source, value, expected) => {
    const reported = await causes("/api/v1/persistentvolumes", "PersistentVolume", { ...volumeSpec, [source]: value });
    expect(reported).toEqual(expected);
  });
});

describe("a block device of a container", () => {
  const volumes = [
    { name: "claim", persistentVolumeClaim: { claimName: "c" } },
    { name: "plain", emptyDir: {} },
  ];
  const field = "spec.containers[0].volumeDevices[0]";
  it.each([
    [[{}], [`${required} ${field}.name`, `FieldValueNotFound ${field}.name`, `${required} ${field}.devicePath`]],
    [[{ name: "plain", devicePath: "/dev/a" }], [`FieldValueInvalid ${field}.name`]],
    [[{ name: "claim", devicePath: "/dev/../a" }], [`FieldValueInvalid ${field}.devicePath`]],
    [
      [
        { name: "claim", devicePath: "/dev/a" },
        { name: "claim", devicePath: "/dev/a" },
      ],
      [
        "FieldValueInvalid spec.containers[0].volumeDevices[1].name",
        "FieldValueInvalid spec.containers[0].volumeDevices[1].devicePath",
      ],
    ],
    [[{ name: "claim", devicePath: "/dev/a" }], []],
  ])("has a name, a claim and a path: %j", async (volumeDevices, expected) => {
    const spec = { containers: [{ ...container, volumeDevices }], volumes };
    expect(await causes(pods, "Pod", spec)).toEqual(expected);
  });

  it("is not mounted too", async () => {
    const volumeMounts = [{ name: "claim", mountPath: "/dev/a" }];
    const volumeDevices = [{ name: "claim", devicePath: "/dev/a" }];
    const spec = { containers: [{ ...container, volumeMounts, volumeDevices }], volumes };
    expect(await causes(pods, "Pod", spec)).toEqual([
      "FieldValueInvalid spec.containers[0].volumeMounts[0].name",
      "FieldValueInvalid spec.containers[0].volumeMounts[0].mountPath",
      `FieldValueInvalid ${field}.name`,
      `FieldValueInvalid ${field}.devicePath`,
    ]);
  });
});

describe("restart rules of a container", () => {
  const rule = { action: "Restart", exitCodes: { operator: "In", values: [1] } };
  const field = "spec.containers[0].restartPolicyRules";
  it.each([
    [{ restartPolicy: "Never", restartPolicyRules: [rule] }, []],
    [{ restartPolicyRules: [rule] }, [`${required} spec.containers[0].restartPolicy`]],
    [
      { restartPolicy: "Never", restartPolicyRules: [{}] },
      [`FieldValueNotSupported ${field}[0].action`, `${required} ${field}[0].exitCodes`],
    ],
    [
      { restartPolicy: "Never", restartPolicyRules: [{ ...rule, exitCodes: { operator: "Near" } }] },
      [`FieldValueNotSupported ${field}[0].exitCodes.operator`],
    ],
  ])("need a policy, an action and exit codes: %j", async (fields, expected) => {
    expect(await causes(pods, "Pod", { containers: [{ ...container, ...fields }] })).toEqual(expected);
  });

  it("number at most 20, each of at most 255 exit codes", async () => {
    const repeat = <T>(count: number, value: T): readonly T[] => Array.from({ length: count }, () => value);
    const create = (restartPolicyRules: readonly object[]): Promise<readonly string[]> =>
      causes(pods, "Pod", { containers: [{ ...container, restartPolicy: "Never", restartPolicyRules }] });
    const ruleOf = (codes: number): object => ({ ...rule, exitCodes: { operator: "In", values: repeat(codes, 1) } });
    expect(await create(repeat(20, ruleOf(255)))).toEqual([]);
    expect(await create(repeat(21, rule))).toEqual([`FieldValueTooLong ${field}`]);
    expect(await create([ruleOf(256)])).toEqual([`FieldValueTooLong ${field}[0].exitCodes.values`]);
  });

  it("are forbidden in sidecars", async () => {
    const sidecar = { name: "s", image: "i", restartPolicy: "Always", restartPolicyRules: [rule] };
    expect(await causes(pods, "Pod", { containers: [container], initContainers: [sidecar] })).toEqual([
      "FieldValueForbidden spec.initContainers[0].restartPolicyRules",
    ]);
  });
});

describe("a device needs", () => {
  const exactly = { deviceClassName: "c", selectors: [{}, { cel: {} }] };
  const selectors = (path: string): readonly string[] => [
    `${required} ${path}[0].cel`,
    `FieldValueInvalid ${path}[1].cel.expression`,
  ];
  it("a name that no other device of its slice has", async () => {
    const slice = { driver: "d.example.com", nodeName: "n", pool: { name: "p", resourceSliceCount: 1 } };
    const reported = await causes(`${devices}/resourceslices`, "ResourceSlice", {
      ...slice,
      devices: [{}, { name: "a" }, { name: "a" }],
    });
    expect(reported).toEqual(["FieldValueInvalid spec.devices[0].name", "FieldValueDuplicate spec.devices[2]"]);
    const many = Array.from({ length: 129 }, (_, index) => ({ name: `d${index}` }));
    expect(await causes(`${devices}/resourceslices`, "ResourceSlice", { ...slice, devices: many })).toEqual([
      "FieldValueTooMany spec.devices",
    ]);
  });

  it("an expression in each selector of a class or claim", async () => {
    expect(await causes(`${devices}/deviceclasses`, "DeviceClass", { selectors: [{}, { cel: {} }] })).toEqual(
      selectors("spec.selectors"),
    );
    const claim = { devices: { requests: [{ name: "r", exactly }] } };
    const path = `${devices}/namespaces/default/resourceclaims`;
    expect(await causes(path, "ResourceClaim", claim)).toEqual(selectors("spec.devices.requests[0].exactly.selectors"));
    const alternatives = { devices: { requests: [{ name: "r", firstAvailable: [{ name: "", ...exactly }] }] } };
    expect(await causes(path, "ResourceClaim", alternatives)).toEqual([
      "FieldValueInvalid spec.devices.requests[0].firstAvailable[0].name",
      ...selectors("spec.devices.requests[0].firstAvailable[0].selectors"),
    ]);
  });
});

describe("topology", () => {
  it("constraints with the same key and action are reported, except the last", async () => {
    const constraint = (topologyKey: string): object => ({ maxSkew: 1, topologyKey, whenUnsatisfiable: "ScheduleAnyway" });
    const topologySpreadConstraints = [constraint("a"), constraint("b"), constraint("a"), constraint("a")];
    const reported = await causes(pods, "Pod", { containers: [container], topologySpreadConstraints });
    expect(reported).toEqual([
      "FieldValueDuplicate spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
      "FieldValueDuplicate spec.topologySpreadConstraints[2].{topologyKey, whenUnsatisfiable}",
    ]);
  });

  it("hints of an endpoint name at most 8 distinct zones and nodes", async () => {
    const create = async (hints: object): Promise<readonly string[]> => {
      const [, ...rest] = await requestError(
        environment,
        "POST",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?dryRun=All",
        {
          apiVersion: "discovery.k8s.io/v1",
          kind: "EndpointSlice",
          metadata: { name: "a" },
          addressType: "IPv4",
          endpoints: [{ addresses: ["10.0.0.1"], hints }],
        },
      );
      return rest;
    };
    const names = (count: number): object[] => Array.from({ length: count }, (_, index) => ({ name: `n${index}` }));
    expect(await create({ forZones: names(8), forNodes: names(8) })).toEqual([]);
    expect(await create({ forZones: names(9) })).toEqual(["FieldValueTooMany endpoints[0].hints.forZones"]);
    expect(await create({ forNodes: names(9) })).toEqual(["FieldValueTooMany endpoints[0].hints.forNodes"]);
    expect(
      await create({ forZones: [{ name: "a" }, { name: "a" }], forNodes: [{ name: "A" }, { name: "b" }, { name: "b" }] }),
    ).toEqual([
      "FieldValueDuplicate endpoints[0].hints.forZones[1].name",
      "FieldValueInvalid endpoints[0].hints.forNodes[0].name",
      "FieldValueDuplicate endpoints[0].hints.forNodes[2].name",
    ]);
  });
});
