import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, createClient as createRpcClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { ClusterRole, ConfigMap, Namespace, RoleBinding, ServiceAccount } from "@keelson/api-machinery/kinds";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { ClusterIdentities } from "@keelson/controller/access";
import {
  FastPathService,
  SandboxFiles,
  SandboxLifecycle,
  SandboxPorts,
  SandboxProcesses,
  SandboxStreams,
  SandboxUsage,
  SandboxVolumes,
} from "@keelson/sandbox/protocol";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Sandbox } from "../../api/sandbox.ts";
import { SandboxVolume } from "../../api/sandbox-volume.ts";
import { sandboxes } from "../../operator.ts";
import { createFastPathClient } from "../client.ts";
import { type FastPathServer, startFastPathServer } from "../fastpath-server.ts";
import { ServingTls } from "../tls/serving-tls.ts";
import { authorizeCalls } from "./authorize-calls.ts";
import { callRules } from "./call-rules.ts";

/*
 * Attacks on the fast path by users of the cluster, over real TLS, with the tokens, certificates and RBAC of a test environment. The services
 * only record which calls reach them.
 */

const services = [
  FastPathService,
  SandboxFiles,
  SandboxLifecycle,
  SandboxPorts,
  SandboxProcesses,
  SandboxStreams,
  SandboxUsage,
  SandboxVolumes,
];
const dayMs = 24 * 60 * 60 * 1000;
const now = Date.now();
const validity = { notBefore: new Date(now - dayMs), notAfter: new Date(now + dayMs) };
let clock: VirtualClock;
let environment: TestEnvironment;
let client: Client;
let authority: KeyPair;
let server: FastPathServer;
let secureUrl: string;
let reached: string[] = [];
let reviews = 0;

/** Records the calls that reach a service. */
function record(router: ConnectRouter): void {
  for (const service of services)
    for (const method of service.methods) {
      const note = (): object => {
        reached.push(method.name);
        return {};
      };
      router.rpc(
        method,
        (method.methodKind === "unary" || method.methodKind === "client_streaming"
          ? note
          : async function* () {
              yield note();
            }) as never,
      );
    }
}

/** A token of a service account, which the API server accepts unless `audiences` says otherwise. */
async function tokenOf(namespace: string, name: string, options: { audiences?: string[]; expirationSeconds?: number } = {}) {
  const { metadata } = await client.get(ServiceAccount, { namespace, name });
  const { audiences = [], expirationSeconds = 3600 } = options;
  return environment.server.tokens.issue({
    account: { namespace, name, uid: metadata.uid ?? "" },
    audiences,
    expirationSeconds,
  }).token;
}

const connect = (token: string | undefined, tls: { cert?: string; key?: string } = {}, baseUrl = secureUrl) =>
  createFastPathClient({ baseUrl, ...(token !== undefined && { token }), tls: { ca: authority.certificate, ...tls } });

/** The error of a call to a method with a sandbox of this namespace. */
async function callMethod(method: DescMethod, token: string, namespace: string): Promise<ConnectError | undefined> {
  const transport = createGrpcTransport({
    baseUrl: secureUrl,
    nodeOptions: { ca: authority.certificate },
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${token}`);
        return next(request);
      },
    ],
  });
  const target = { sandboxName: "one", namespace };
  const isNested = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  const message = isNested ? { request: { case: "start", value: target } } : target;
  async function* messages() {
    yield message;
  }
  const rpc = createRpcClient(method.parent, transport) as unknown as Record<string, (input: unknown) => unknown>;
  try {
    const answer = rpc[method.localName]?.(isNested ? messages() : message);
    if (method.methodKind === "unary" || method.methodKind === "client_streaming") await answer;
    else for await (const _ of answer as AsyncIterable<unknown>) break;
    return undefined;
  } catch (error) {
    return ConnectError.from(error);
  }
}

beforeAll(async () => {
  clock = createVirtualClock();
  environment = await startTestEnvironment({ clock });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  authority = await createCertificateAuthority("test", validity.notBefore, validity.notAfter);
  const certificate = await issueCertificate(authority, {
    ...{ commonName: "fastpath", usage: "server", hosts: ["127.0.0.1"] },
    ...validity,
  });
  const rules = [...(sandboxes.userRules?.view ?? []), ...(sandboxes.userRules?.edit ?? [])];
  const verbs = ["get", "list", "create", "patch", "delete"];
  await client.create(ClusterRole, {
    metadata: { name: "editor" },
    rules: [...rules, { apiGroups: [Sandbox.group], resources: [Sandbox.plural, SandboxVolume.plural], verbs }],
  });
  await client.create(ClusterRole, {
    metadata: { name: "viewer" },
    rules: [
      ...(sandboxes.userRules?.view ?? []),
      { apiGroups: [Sandbox.group], resources: [Sandbox.plural], verbs: ["get", "list"] },
    ],
  });
  for (const [namespace, role] of [
    ["team-a", "editor"],
    ["team-b", "editor"],
    ["team-v", "viewer"],
  ] as const) {
    await client.create(Namespace, { metadata: { name: namespace } });
    await client.create(ServiceAccount, { metadata: { namespace, name: "bot" } });
    await client.create(RoleBinding, {
      metadata: { namespace, name: "bot" },
      roleRef: { apiGroup: ClusterRole.group, kind: "ClusterRole", name: role },
      subjects: [
        { kind: "ServiceAccount", name: "bot", namespace },
        { kind: "Group", name: `${namespace}-people`, apiGroup: ClusterRole.group },
      ],
    });
  }
  const counted = {
    create: (...parameters: Parameters<Client["create"]>) => {
      reviews += 1;
      return client.create(...parameters);
    },
  } as unknown as Client;
  const identities = new ClusterIdentities({ client: counted, clock });
  await client.create(ConfigMap, {
    metadata: { namespace: "kube-system", name: "extension-apiserver-authentication" },
    data: { "client-ca-file": authority.certificate },
  });
  const tls = new ServingTls({ certificate: () => Promise.resolve(certificate), client, clock, log: silentLogger });
  server = await startFastPathServer({
    ...{ bindAddress: "127.0.0.1", port: 0, tls: await tls.load(), routes: record },
    authorize: authorizeCalls({ staticToken: undefined, identities, clock: systemClock }),
  });
  secureUrl = server.url.replace("http:", "https:");
});

beforeEach(() => {
  reached = [];
});

afterAll(async () => {
  await server.close();
  await environment.stop();
});

const allMethods = [...callRules.keys()].map((method) => [method.toString(), method] as const);

describe("a user with permissions in one namespace", () => {
  it.each(allMethods)("may call %s there, and not in another namespace", async (_, method) => {
    const token = await tokenOf("team-a", "bot");
    expect(await callMethod(method, token, "team-a")).toBeUndefined();
    expect(reached).toEqual([method.name]);
    const denied = await callMethod(method, token, "team-b");
    expect(denied).toMatchObject({ code: Code.PermissionDenied });
    expect(denied?.rawMessage).toContain('User "system:serviceaccount:team-a:bot" cannot ');
    expect(denied?.rawMessage).toContain('in the namespace "team-b"');
    expect(reached).toEqual([method.name]);
  });

  it("gets the user, the verb and the resource of a denied call in its error", async () => {
    const { streams, fastPath } = connect(await tokenOf("team-v", "bot"));
    async function* start() {
      yield { request: { case: "start" as const, value: { sandboxName: "one", namespace: "team-v", command: ["id"] } } };
    }
    await expect(streams.exec(start())[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: Code.PermissionDenied,
      rawMessage:
        'sandboxes.sandbox.fast.io "one" is forbidden: User "system:serviceaccount:team-v:bot" cannot create resource ' +
        '"sandboxes/exec" in API group "sandbox.fast.io" in the namespace "team-v"',
    });
    await expect(fastPath.listSandboxes({})).rejects.toMatchObject({
      rawMessage: expect.stringContaining(
        'cannot list resource "sandboxes" in API group "sandbox.fast.io" in the namespace "default"',
      ),
    });
    expect(reached).toEqual([]);
  });

  it("may view and read logs without running, reading files or deleting", async () => {
    const token = await tokenOf("team-v", "bot");
    const allowed: string[] = [];
    for (const [, method] of allMethods)
      if ((await callMethod(method, token, "team-v")) === undefined) allowed.push(method.name);
    expect(allowed.toSorted()).toEqual(["GetSandbox", "ListSandboxes", "Logs", "WatchUsage"]);
  });

  it.each(["team-b/sandboxes", "..", "TEAM-B", "team-b\0"])("cannot disguise a namespace as %j", async (namespace) => {
    const { fastPath } = connect(await tokenOf("team-a", "bot"));
    await expect(fastPath.listSandboxes({ namespace })).rejects.toMatchObject({ code: Code.InvalidArgument });
    expect(reached).toEqual([]);
  });

  it("needs the permission in the cluster for the sandboxes of all namespaces", async () => {
    const { usage } = connect(await tokenOf("team-a", "bot"));
    const report = usage.watchUsage({ namespace: "team-a", allNamespaces: true })[Symbol.asyncIterator]().next();
    await expect(report).rejects.toMatchObject({
      code: Code.PermissionDenied,
      rawMessage: expect.stringContaining(
        'cannot list resource "sandboxes" in API group "sandbox.fast.io" at the cluster scope',
      ),
    });
    expect(reached).toEqual([]);
  });

  it("is reviewed once while the answer is fresh, and loses a revoked permission after 10 s", async () => {
    const { fastPath } = connect(await tokenOf("team-b", "bot"));
    const before = reviews;
    await Promise.all([1, 2, 3].map(() => fastPath.listSandboxes({ namespace: "team-b" })));
    await fastPath.listSandboxes({ namespace: "team-b" });
    expect(reviews - before).toBe(2);
    const binding = await client.get(RoleBinding, { namespace: "team-b", name: "bot" });
    await client.delete(RoleBinding, { namespace: "team-b", name: "bot" });
    await clock.advance(10_000);
    await expect(fastPath.listSandboxes({ namespace: "team-b" })).rejects.toMatchObject({ code: Code.PermissionDenied });
    const { resourceVersion: _, uid: __, ...metadata } = binding.metadata;
    await client.create(RoleBinding, { ...binding, metadata } as never);
    await clock.advance(10_000);
    await fastPath.listSandboxes({ namespace: "team-b" });
  });
});

describe("a token", () => {
  const list = (token: string | undefined, baseUrl?: string) =>
    connect(token, {}, baseUrl).fastPath.listSandboxes({ namespace: "team-a" });

  it("of another audience is rejected", async () => {
    const token = await tokenOf("team-a", "bot", { audiences: ["vault"] });
    await expect(list(token)).rejects.toMatchObject({ code: Code.Unauthenticated });
    expect(reached).toEqual([]);
  });

  it("is rejected from its expiry on, even if it was accepted a moment before", async () => {
    const token = await tokenOf("team-a", "bot", { expirationSeconds: 600 });
    await clock.advance(598_000);
    await list(token);
    await clock.advance(3_000);
    await expect(list(token)).rejects.toMatchObject({ code: Code.Unauthenticated });
    expect(reached).toEqual(["ListSandboxes"]);
  });

  it("that is forged, or missing, is rejected", async () => {
    const [head, payload, signature = ""] = (await tokenOf("team-a", "bot")).split(".");
    const forged = `${head}.${payload}.${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`;
    await expect(list(forged)).rejects.toMatchObject({ code: Code.Unauthenticated });
    await expect(list(undefined)).rejects.toMatchObject({ code: Code.Unauthenticated });
    expect(reached).toEqual([]);
  });

  it("is not accepted without TLS, and not reviewed", async () => {
    const token = await tokenOf("team-a", "bot");
    const before = reviews;
    await expect(list(token, server.url)).rejects.toMatchObject({
      code: Code.Unauthenticated,
      rawMessage: expect.stringMatching(/^TLS required/),
    });
    expect([reviews - before, reached]).toEqual([0, []]);
  });

  it("is rejected while the API server does not respond", async () => {
    const token = await tokenOf("team-a", "bot");
    environment.faults.failNext({ reason: "InternalError" });
    await expect(list(token)).rejects.toMatchObject({ code: Code.Unavailable });
    expect(reached).toEqual([]);
  });
});

describe("a client certificate", () => {
  const issue = (signer: KeyPair, organizations: readonly string[], notAfter = validity.notAfter) =>
    issueCertificate(signer, {
      ...{ commonName: "jane", usage: "client" as const, organizations, notBefore: validity.notBefore, notAfter },
    });
  const list = ({ certificate: cert, key }: KeyPair, namespace: string) =>
    connect(undefined, { cert, key }).fastPath.listSandboxes({ namespace });

  it("of the cluster's authority identifies a user with its groups", async () => {
    const jane = await issue(authority, ["team-a-people"]);
    await list(jane, "team-a");
    await expect(list(jane, "team-b")).rejects.toMatchObject({
      code: Code.PermissionDenied,
      rawMessage: expect.stringContaining('User "jane" cannot list'),
    });
  });

  it("of another authority, or that has expired, is rejected", async () => {
    const other = await createCertificateAuthority("test", validity.notBefore, validity.notAfter);
    await expect(list(await issue(other, ["team-a-people"]), "team-a")).rejects.toMatchObject({ code: Code.Unauthenticated });
    const expired = await issue(authority, ["team-a-people"], new Date(now - 60_000));
    await expect(list(expired, "team-a")).rejects.toMatchObject({ code: Code.Unauthenticated });
    expect(reached).toEqual([]);
  });

  it("for a server is rejected", async () => {
    const wrong = await issueCertificate(authority, {
      ...{ commonName: "system:admin", usage: "server", organizations: ["system:masters"] },
      ...validity,
    });
    await expect(list(wrong, "team-a")).rejects.toMatchObject({ code: Code.Unauthenticated });
  });
});
