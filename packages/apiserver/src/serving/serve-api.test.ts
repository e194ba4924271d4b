import { createPublicKey, type JsonWebKey, verify } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemRandom } from "../endpoints/random-source.ts";
import { keysOrigin } from "../discovery/issuer-discovery.ts";
import { serveApi } from "./serve-api.ts";
import type { ServedApi } from "./serve-options.ts";

const token = "token-of-the-administrator";
let dataDir: string;
let ca: string;
let api: ServedApi;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "keelson-serve-"));
  api = await serveApi({
    dataDir,
    port: 0,
    clock: systemClock,
    random: systemRandom,
    storage: { sync: false },
    staticTokens: new Map([
      [token, { username: "admin", groups: ["system:masters"] }],
      ["token-of-an-ordinary-user", { username: "jane", groups: [] }],
    ]),
  });
  ca = await readFile(join(dataDir, "pki", "ca.crt"), "utf8");
});
afterAll(async () => {
  await api.close();
  await rm(dataDir, { recursive: true, force: true });
});

interface Reply {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
}

function get(
  path: string,
  options: { host?: string; token?: string; method?: string; body?: string; accept?: string } = {},
): Promise<Reply> {
  const { host, token: bearer, method = "GET", body, accept = "application/json" } = options;
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      `${api.url}${path}`,
      {
        ca,
        method,
        agent: false,
        servername: "localhost",
        headers: {
          accept,
          ...(host === undefined ? {} : { host }),
          ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
          ...(body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
        },
      },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => (text += chunk));
        response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
      },
    );
    request.on("error", reject);
    request.end(body);
  });
}

describe("the issuer of service account tokens", () => {
  it.each([
    ["kubernetes.default.svc", "https://kubernetes.default.svc"],
    ["127.200.0.1:443", "https://127.200.0.1"],
    ["kubernetes:6443", "https://kubernetes:6443"],
    ["kubernetes:6443@a.example", undefined],
    ["kubernetes.a.example", undefined],
    [undefined, undefined],
  ])("publishes its keys at the address that a Pod used: %s", async (host, origin) => {
    expect(keysOrigin(host, "127.200.0.1")).toBe(origin);
    if (host === undefined) return;
    const { text } = await get("/.well-known/openid-configuration", { token, host });
    expect(JSON.parse(text)).toMatchObject({ jwks_uri: `${origin ?? api.url}/openid/v1/jwks` });
  });

  it("publishes the keys that verify its tokens", async () => {
    const configuration = await get("/.well-known/openid-configuration", { token });
    expect(configuration.headers["content-type"]).toBe("application/json");
    const { issuer, jwks_uri: keysUrl } = JSON.parse(configuration.text) as { issuer: string; jwks_uri: string };
    expect([issuer, keysUrl]).toEqual(["https://kubernetes.default.svc.cluster.local", `${api.url}/openid/v1/jwks`]);
    const served = await get("/openid/v1/jwks", { token });
    expect(served.headers["content-type"]).toBe("application/jwk-set+json");
    const { keys } = JSON.parse(served.text) as { keys: (JsonWebKey & { kid: string })[] };
    const issued = api.server.tokens.issue({
      account: { namespace: "default", name: "a", uid: "u" },
      audiences: ["test"],
      expirationSeconds: 600,
    });
    const [head = "", payload = "", signature = ""] = issued.token.split(".");
    const { kid } = JSON.parse(Buffer.from(head, "base64url").toString()) as { kid: string };
    const jwk = keys.find((each) => each.kid === kid);
    if (jwk === undefined) throw new Error(`no key ${kid}`);
    const key = { key: createPublicKey({ key: jwk, format: "jwk" }), dsaEncoding: "ieee-p1363" } as const;
    expect(verify("sha256", Buffer.from(`${head}.${payload}`), key, Buffer.from(signature, "base64url"))).toBe(true);
    expect(Object.keys(jwk)).not.toContain("d");
  });
});

describe("an anonymous client", () => {
  it.each(["/healthz", "/livez", "/readyz", "/version"])("may read %s", async (path) => {
    expect((await get(path)).status).toBe(200);
  });

  it("is rejected as system:anonymous elsewhere, and with 401 for an invalid token", async () => {
    const denied = await get("/api/v1/namespaces/default/secrets");
    expect(denied.status).toBe(403);
    expect(JSON.parse(denied.text).message).toBe(
      'secrets is forbidden: User "system:anonymous" cannot list resource "secrets" in API group "" in the namespace "default"',
    );
    expect((await get("/api/v1/namespaces/default/secrets", { token: "wrong" })).status).toBe(401);
  });
});

describe("a served API", () => {
  it("lists its health checks", async () => {
    const { text } = await get("/readyz?verbose");
    expect(text.split("\n")).toEqual([
      "[+]ping ok",
      "[+]etcd ok",
      "[+]poststarthook/bootstrap-controller ok",
      "[+]poststarthook/priority-and-fairness-config-producer ok",
      "[+]poststarthook/rbac/bootstrap-roles ok",
      "readyz check passed",
      "",
    ]);
    expect((await get("/readyz/poststarthook/rbac/bootstrap-roles", { token })).text).toBe("ok");
  });

  it("serves metrics to those who may read them", async () => {
    await get("/api/v1/namespaces/default/configmaps", { token });
    const { status, text } = await get("/metrics", { token });
    expect(status).toBe(200);
    expect(text).toMatch(
      /^apiserver_request_total\{code="200",group="",resource="configmaps",subresource="",verb="LIST",version="v1"\} 1$/m,
    );
    expect(text).toMatch(/^apiserver_flowcontrol_current_executing_seats\{priority_level="workload-low"\} 0$/m);
    expect((await get("/metrics")).status).toBe(403);
  });

  it("names the FlowSchema and priority level of a request", async () => {
    const { headers } = await get("/api/v1/namespaces", { token: "token-of-an-ordinary-user" });
    expect(headers["x-kubernetes-pf-flowschema-uid"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(headers["x-kubernetes-pf-prioritylevel-uid"]).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("is reachable through the Service default/kubernetes", async () => {
    const port = Number(new URL(api.url).port);
    const read = async (path: string): Promise<Record<string, ReturnType<typeof JSON.parse>>> =>
      JSON.parse((await get(path, { token })).text);
    const service = await read("/api/v1/namespaces/default/services/kubernetes");
    expect(service["spec"]).toMatchObject({
      clusterIP: "127.200.0.1",
      ports: [{ name: "https", port: 443, targetPort: port }],
    });
    const endpoints = await read("/api/v1/namespaces/default/endpoints/kubernetes");
    expect(endpoints["subsets"]).toEqual([
      { addresses: [{ ip: "127.0.0.1" }], ports: [{ name: "https", port, protocol: "TCP" }] },
    ]);
    const slice = await read("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes");
    expect(slice).toMatchObject({ endpoints: [{ addresses: ["127.0.0.1"] }], ports: [{ port }] });
  });

  it("moves the Service default/kubernetes to another network of Services", async () => {
    const dir = await mkdtemp(join(tmpdir(), "keelson-serve-"));
    const serve = (serviceNetwork: string): Promise<ServedApi> =>
      serveApi({ dataDir: dir, serviceNetwork, port: 0, clock: systemClock, random: systemRandom, storage: { sync: false } });
    await (await serve("127.130")).close();
    const moved = await serve("127.131");
    const service = await moved.server
      .transport()
      .request({ method: "GET", path: "/api/v1/namespaces/default/services/kubernetes" });
    expect(service.body).toMatchObject({ spec: { clusterIP: "127.131.0.1", clusterIPs: ["127.131.0.1"] } });
    await moved.close();
    await rm(dir, { recursive: true, force: true });
  });

  it("does not show a review as a Table", async () => {
    const body = JSON.stringify({
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { nonResourceAttributes: { path: "/", verb: "get" } },
    });
    const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    expect((await get(path, { token, method: "POST", body, accept })).status).toBe(406);
  });
});
