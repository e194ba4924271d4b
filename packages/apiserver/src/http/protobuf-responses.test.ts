import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemRandom } from "../endpoints/random-source.ts";
import { serveApi } from "../serving/serve-api.ts";
import type { ServedApi } from "../serving/serve-options.ts";
import { decodeProtobuf } from "./protobuf/decode.ts";
import { ProtobufEncoder } from "./protobuf/encode.ts";
import { readFields } from "./protobuf/wire-format.ts";

const token = "token-of-an-administrator";
const protobuf = "application/vnd.kubernetes.protobuf";
const asMetadata = (as: string): string => `${protobuf};as=${as};v=v1;g=meta.k8s.io`;
const configMaps = "/api/v1/namespaces/default/configmaps";
const widgets = "/apis/example.com/v1/namespaces/default/widgets";
const encoder = new ProtobufEncoder();

let folder: string;
let api: ServedApi;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "keelson-"));
  api = await serveApi({
    dataDir: folder,
    socketPath: join(folder, "api", "server.sock"),
    port: 0,
    clock: systemClock,
    random: systemRandom,
    // So that a watch from the beginning fails.
    storage: { sync: false, historyEvents: 1 },
    staticTokens: new Map([[token, { username: "admin", groups: ["system:masters"] }]]),
  });
  await call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", { body: crd });
});
afterAll(async () => {
  await api.close();
  rmSync(folder, { recursive: true, force: true });
});

const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
const crd = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.example.com" },
  spec: {
    group: "example.com",
    scope: "Namespaced",
    names: { plural: "widgets", kind: "Widget" },
    versions: [{ name: "v1", served: true, storage: true, schema }],
  },
};

interface Sent {
  readonly accept?: string;
  readonly body?: object | Uint8Array;
  readonly contentType?: string;
}

function open(method: string, path: string, { accept = "application/json", body, contentType }: Sent = {}): ClientRequest {
  const bytes = body === undefined || body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body));
  const type = contentType ?? (body instanceof Uint8Array ? protobuf : "application/json");
  const headers = { authorization: `Bearer ${token}`, accept, ...(bytes === undefined ? {} : { "content-type": type }) };
  return request({ socketPath: api.socketPath, method, path, headers, agent: false }).end(bytes);
}

const responseTo = (sent: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => sent.on("response", resolve).on("error", reject));

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly bytes: Buffer;
  readonly json: JsonObject;
}

async function call(method: string, path: string, sent?: Sent): Promise<Reply> {
  const response = await responseTo(open(method, path, sent));
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  const bytes = Buffer.concat(parts);
  const type = response.headers["content-type"] ?? "";
  return { status: response.statusCode ?? 0, type, bytes, json: type.includes("json") ? JSON.parse(bytes.toString()) : {} };
}

const configMap = (name: string, data: Record<string, string> = {}): JsonObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data,
});
const type = { apiVersion: "v1", kind: "ConfigMap" };
const encoded = (object: JsonObject): Buffer => Buffer.from(encoder.object(object, type));

/** A list as protobuf, from its JSON. */
function encodedList({ kind, apiVersion, metadata, items }: JsonObject, item = type): Buffer {
  const list = { apiVersion: String(apiVersion), kind: String(kind) };
  const content = encoder.items(item, Array.isArray(items) ? items.filter(isJsonObject) : []);
  const { start, end } = encoder.listEnds(list, isJsonObject(metadata) ? metadata : {}, content.length);
  return Buffer.concat([start, content, end]);
}

describe("a response in protobuf", () => {
  test("has the object of a create, get, update, patch and delete, for bodies in protobuf too", async () => {
    const accept = `${protobuf},application/json`;
    const created = await call("POST", configMaps, { accept, body: encoded(configMap("a", { k: "v" })) });
    expect([created.status, created.type]).toEqual([201, protobuf]);
    expect(decodeProtobuf(created.bytes)).toMatchObject(configMap("a", { k: "v" }));
    const stored = (await call("GET", `${configMaps}/a`)).json;
    expect((await call("GET", `${configMaps}/a`, { accept })).bytes).toEqual(encoded(stored));
    const updated = await call("PUT", `${configMaps}/a`, { accept, body: encoded({ ...stored, data: { k: "w" } }) });
    expect(decodeProtobuf(updated.bytes)).toMatchObject({ data: { k: "w" } });
    const patch = { accept, body: { data: { l: "x" } }, contentType: "application/merge-patch+json" };
    expect(decodeProtobuf((await call("PATCH", `${configMaps}/a`, patch)).bytes)).toMatchObject({ data: { k: "w", l: "x" } });
    const deleted = await call("DELETE", `${configMaps}/a`, { accept });
    expect(decodeProtobuf(deleted.bytes)).toMatchObject({ apiVersion: "v1", kind: "Status", status: "Success" });
  });

  test("has the failure", async () => {
    const failed = await call("GET", `${configMaps}/none`, { accept: protobuf });
    expect([failed.status, failed.type]).toEqual([404, protobuf]);
    expect(decodeProtobuf(failed.bytes)).toMatchObject({ kind: "Status", reason: "NotFound", code: 404 });
  });

  test("has the same items as the list in JSON, even if it is read in slices", async () => {
    for (let index = 0; index < 40; index++) {
      await call("POST", configMaps, { body: configMap(`long-${index}`, { text: "x".repeat(40_000) }) });
    }
    for (const query of ["", "?limit=3", "?fieldSelector=metadata.name=none"]) {
      const json = await call("GET", configMaps + query);
      const list = await call("GET", configMaps + query, { accept: protobuf });
      expect(list.type).toBe(protobuf);
      expect(list.bytes.equals(encodedList(json.json))).toBe(true);
    }
  });

  test("can have the metadata of built-in and custom objects", async () => {
    await call("POST", widgets, { body: { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "w" } } });
    for (const path of [widgets, `${configMaps}?limit=2`]) {
      const accept = asMetadata("PartialObjectMetadataList");
      const json = await call("GET", path, { accept: accept.replace(protobuf, "application/json") });
      const item = { apiVersion: "meta.k8s.io/v1", kind: "PartialObjectMetadata" };
      expect((await call("GET", path, { accept })).bytes.equals(encodedList(json.json, item))).toBe(true);
    }
    const one = await call("GET", `${widgets}/w`, { accept: asMetadata("PartialObjectMetadata") });
    expect(decodeProtobuf(one.bytes)).toMatchObject({ kind: "PartialObjectMetadata", metadata: { name: "w" } });
  });

  test("does not exist for custom objects and Tables: 406, or the next accepted type", async () => {
    const widget = { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "new" } };
    const refused = await call("POST", widgets, { accept: protobuf, body: widget });
    expect([refused.status, decodeProtobuf(refused.bytes)["reason"]]).toEqual([406, "NotAcceptable"]);
    expect((await call("GET", `${widgets}/new`)).status).toBe(404);
    const both = await call("GET", widgets, { accept: `${protobuf},application/json` });
    expect([both.status, both.type]).toEqual([200, "application/json"]);
    const table = await call("GET", configMaps, {
      accept: `${asMetadata("Table")},application/json;as=Table;v=v1;g=meta.k8s.io`,
    });
    expect([table.type, table.json["kind"]]).toEqual(["application/json", "Table"]);
    expect((await call("GET", configMaps, { accept: asMetadata("Table") })).status).toBe(406);
  });

  test.each([
    ["/api", "APIVersions"],
    ["/apis", "APIGroupList"],
    ["/apis/apps", "APIGroup"],
    ["/apis/apps/v1", "APIResourceList"],
  ])("has the discovery document %s", async (path, kind) => {
    const { json } = await call("GET", path);
    const { type: mediaType, bytes } = await call("GET", path, { accept: protobuf });
    expect(mediaType).toBe(protobuf);
    expect(bytes).toEqual(Buffer.from(encoder.object(json, { apiVersion: String(json["apiVersion"] ?? ""), kind })));
  });

  test("is not available for other documents", async () => {
    expect((await call("GET", "/version", { accept: protobuf })).status).toBe(406);
    expect((await call("GET", "/version", { accept: `${protobuf},application/json` })).type).toBe("application/json");
  });
});

/** Splits a stream into frames and reads their type and object. */
async function* events(response: IncomingMessage): AsyncGenerator<{ type: string; object: JsonObject }> {
  let rest = Buffer.alloc(0);
  for await (const part of response) {
    rest = Buffer.concat([rest, part as Buffer]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE()) {
      const end = 4 + rest.readUInt32BE();
      const [name, object] = [...readFields(rest.subarray(4, end))];
      const [raw] = object === undefined ? [] : [...readFields(object.bytes)];
      yield { type: Buffer.from(name?.bytes ?? []).toString(), object: decodeProtobuf(raw?.bytes ?? new Uint8Array()) };
      rest = rest.subarray(end);
    }
  }
}

describe("a watch in protobuf", () => {
  test.each([
    ["objects", protobuf, "ConfigMap", { data: { k: "v" } }],
    ["metadata", asMetadata("PartialObjectMetadata"), "PartialObjectMetadata", {}],
  ])("has frames of %s", async (_, accept, kind, content) => {
    const sent = open("GET", `${configMaps}?watch=1&fieldSelector=metadata.name=watched`, { accept });
    const response = await responseTo(sent);
    expect(response.headers["content-type"]).toBe(`${protobuf};stream=watch`);
    await call("POST", configMaps, { body: configMap("watched", { k: "v" }) });
    await call("DELETE", `${configMaps}/watched`);
    const seen = events(response);
    const metadata = { name: "watched" };
    expect((await seen.next()).value).toMatchObject({ type: "ADDED", object: { kind, metadata, ...content } });
    expect((await seen.next()).value).toMatchObject({ type: "DELETED", object: { kind, metadata, ...content } });
    sent.destroy();
  });

  test("has failures as frames", async () => {
    const sent = open("GET", `${configMaps}?watch=1&resourceVersion=1`, { accept: protobuf });
    const seen = events(await responseTo(sent));
    expect((await seen.next()).value).toMatchObject({ type: "ERROR", object: { kind: "Status", reason: "Expired" } });
    sent.destroy();
  });
});
