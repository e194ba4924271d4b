const maps = "/api/v1/namespaces/default/configmaps";
const megabytes = 1024 * 1024;

/** A request with a hostile body: by default the creation of a ConfigMap. */
export interface Attack {
  readonly method?: string;
  readonly path?: string;
  readonly type: string;
  readonly body: string | Uint8Array;
}

/** Media types of bodies. */
export const yaml = "application/yaml";
/** See {@link yaml}. */
export const json = "application/json";

/** A ConfigMap of this name with further fields. */
export const configMap = (name: string, rest: string): string =>
  `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"${name}"},${rest}}`;
const keys = (count: number): string => Array.from({ length: count }, (_, index) => `"k${index}":""`).join(",");

const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** A CRD whose schema has these fields. */
function crdWith(name: string, fields: string): string {
  const kind = `${name[0]?.toUpperCase()}${name.slice(1)}`;
  const schema = `{"type":"object","properties":{"a":{"type":"string"}},${fields}}`;
  const version = `{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":${schema}}}`;
  return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"${name}s.example.org"},"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"${name}s","kind":"${kind}"},"versions":[${version}]}}`;
}
const alternatives = (count: number, schema: (index: number) => string): string =>
  `"allOf":[${Array.from({ length: count }, (_, index) => schema(index)).join(",")}]`;

/** Hostile bodies with the status codes of a user who may do everything. */
export const attacks: readonly (readonly [string, Attack, readonly number[]])[] = [
  ["2.9 million opening brackets in YAML", { type: yaml, body: "[".repeat(2_900_000) }, [400, 413]],
  ["2.9 million opening brackets in JSON", { type: json, body: "[".repeat(2_900_000) }, [400]],
  ["anchors", { type: yaml, body: "&a ".repeat(900_000) }, [400, 413]],
  ["nested block lists", { type: yaml, body: "- ".repeat(1_400_000) }, [400, 413]],
  ["nested explicit keys", { type: yaml, body: "? ".repeat(1_400_000) }, [400, 413]],
  ["a list of 700,000 items", { type: json, body: configMap("a", `"data":[${"1,".repeat(699_999)}1]`) }, [413]],
  ["a list of 700,000 items in YAML", { type: yaml, body: `data: [${"1,".repeat(699_999)}1]` }, [413]],
  ["150,000 keys", { type: json, body: configMap("b", `"data":{${keys(150_000)}}`) }, [413]],
  [
    "aliases that expand",
    {
      type: yaml,
      body: `a: &a [${"x,".repeat(9_000)}]\n${Array.from({ length: 90 }, (_, index) => `b${index}: *a\n`).join("")}`,
    },
    [400, 413],
  ],
  ["duplicate keys", { type: json, body: configMap("c", `"data":{${'"a":"",'.repeat(39_000)}"a":""}`) }, [201]],
  [
    "a merge patch with 150,000 keys",
    { method: "PATCH", path: `${maps}/target`, type: "application/merge-patch+json", body: `{"data":{${keys(150_000)}}}` },
    [413],
  ],
  [
    "a JSON patch with 10,001 operations",
    {
      method: "PATCH",
      path: `${maps}/target`,
      type: "application/json-patch+json",
      body: `[${Array.from({ length: 10_001 }, () => '{"op":"remove","path":"/data/a"}').join(",")}]`,
    },
    [413],
  ],
  [
    "a JSON patch that copies itself",
    {
      method: "PATCH",
      path: `${maps}/target`,
      type: "application/json-patch+json",
      body: `[${Array.from({ length: 60 }, (_, index) => `{"op":"copy","from":"/data","path":"/data/z${index}"}`).join(",")}]`,
    },
    [413],
  ],
  [
    "protobuf with a million fields",
    {
      type: "application/vnd.kubernetes.protobuf",
      body: protobufConfigMap(Buffer.alloc(2 * megabytes, Buffer.from([0x12, 0x00]))),
    },
    [413],
  ],
  ["39,000 keys", { type: json, body: configMap("k", `"data":{${keys(39_000)}}`) }, [201]],
  [
    "65,000 alternatives in a CRD",
    {
      path: crds,
      type: json,
      body: crdWith(
        "one",
        alternatives(65_000, () => "{}"),
      ),
    },
    [413],
  ],
  [
    "3,000 patterns in a CRD",
    {
      path: crds,
      type: json,
      body: crdWith(
        "two",
        alternatives(3_000, (index) => `{"properties":{"a":{"pattern":"^${index}$"}}}`),
      ),
    },
    [422],
  ],
  [
    "a pattern of 600,000 characters in a CRD",
    { path: crds, type: json, body: crdWith("three", `"allOf":[{"properties":{"a":{"pattern":"${"a?".repeat(300_000)}"}}}]`) },
    [422],
  ],
  [
    "3,000 rules in a CRD",
    {
      path: crds,
      type: json,
      body: crdWith("four", `"x-kubernetes-validations":[${Array.from({ length: 3_000 }, () => '{"rule":"true"}').join(",")}]`),
    },
    [422],
  ],
  [
    "9,000 host aliases that cause warnings",
    {
      path: "/api/v1/namespaces/default/pods?dryRun=All",
      type: json,
      body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"aliases"},"spec":{"containers":[{"name":"a","image":"a"}],"hostAliases":[${Array.from({ length: 9_000 }, (_, index) => `{"ip":"192.0.2.1","hostnames":["h${index}"]}`).join(",")}]}}`,
    },
    [201],
  ],
  ["39,900 finalizers", { type: json, body: withMetadata(`"finalizers":[${'"x",'.repeat(39_899)}"x"]`) }, [422]],
  ["a name of a million control characters", { type: json, body: configMap("\\u0001".repeat(480_000), '"data":{}') }, [422]],
  [
    "a JSON patch with a path of a million names",
    {
      method: "PATCH",
      path: `${maps}/target`,
      type: "application/json-patch+json",
      body: `[{"op":"add","path":"${"/a".repeat(1_000_000)}","value":"b"}]`,
    },
    [422],
  ],
  [
    "a strategic merge patch that deletes 9,000 of 9,000 ports",
    {
      method: "PATCH",
      path: "/api/v1/namespaces/default/services/ports?dryRun=All",
      type: "application/strategic-merge-patch+json",
      body: `{"spec":{"ports":[${portsFrom(20_001, ',"$patch":"delete"')}]}}`,
    },
    [200],
  ],
  ["more than 3 MiB", { type: json, body: `"${"x".repeat(3 * megabytes)}"` }, [413]],
];

/** 9,000 ports of a Service. */
export function portsFrom(first: number, rest: string): string {
  return Array.from({ length: 9_000 }, (_, index) => `{"name":"p${index}","port":${first + index}${rest}}`).join(",");
}

/** A ConfigMap whose message has these bytes. */
function protobufConfigMap(message: Buffer): Buffer {
  const typeMeta = Buffer.concat([Buffer.from([0x0a, 2]), Buffer.from("v1"), Buffer.from([0x12, 9]), Buffer.from("ConfigMap")]);
  const length: number[] = [];
  for (let left = message.length; ; left = Math.floor(left / 128)) {
    length.push(left >= 128 ? (left % 128) + 128 : left);
    if (left < 128) break;
  }
  return Buffer.concat([
    Buffer.from("k8s\0"),
    Buffer.from([0x0a, typeMeta.length]),
    typeMeta,
    Buffer.from([0x12, ...length]),
    message,
  ]);
}

function withMetadata(field: string): string {
  return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m",${field}}}`;
}
