import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemRandom } from "../endpoints/random-source.ts";
import { listenOnSocket } from "./server/listen.ts";
import { serveApi } from "../serving/serve-api.ts";
import type { ServedApi, ServeApiOptions } from "../serving/serve-options.ts";

const token = "token-of-a-component";
const asComponent = { authorization: `Bearer ${token}` };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "keelson-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function serve(name: string, options: Partial<ServeApiOptions> = {}): Promise<ServedApi> {
  return serveApi({
    dataDir: join(folder, name),
    socketPath: join(folder, name, "api", "server.sock"),
    port: 0,
    clock: systemClock,
    random: systemRandom,
    storage: { sync: false },
    staticTokens: new Map([[token, { username: "component", groups: ["system:masters"] }]]),
    ...options,
  });
}

interface Reply {
  readonly status: number;
  readonly text: string;
}

function get(socketPath: string, path: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path, headers, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on("error", reject).end();
  });
}

describe("the Unix socket of an API server", () => {
  let api: ServedApi;
  let socket: string;
  beforeAll(async () => {
    const policy = join(folder, "policy.yaml");
    writeFileSync(policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n");
    const log = { path: join(folder, "audit.log"), maxSize: 100, maxBackups: 0, maxAge: 0 };
    api = await serve("a", { audit: { policyFile: policy, log } });
    socket = api.socketPath ?? "";
  });
  afterAll(() => api.close());

  test("is reachable by its own user only", () => {
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "a", "api")).mode & 0o777).toBe(0o700);
  });

  test("serves the holder of a static token under its own identity", async () => {
    const review = await get(socket, "/api/v1/namespaces/default", asComponent);
    expect(review.status).toBe(200);
    expect(JSON.parse(review.text)).toMatchObject({ kind: "Namespace", metadata: { name: "default" } });
  });

  test("applies impersonation and RBAC", async () => {
    const { status, text } = await get(socket, "/api/v1/secrets", { ...asComponent, "impersonate-user": "jane" });
    expect(status).toBe(403);
    expect(JSON.parse(text).message).toContain('User "jane" cannot list resource "secrets"');
  });

  test.each([
    ["without a token", {}],
    ["with a wrong token", { authorization: "Bearer wrong" }],
  ])("rejects a request %s, including for paths that anonymous users may read", async (_, headers) => {
    expect((await get(socket, "/healthz", headers)).status).toBe(401);
    expect((await get(socket, "/api/v1/namespaces", headers)).status).toBe(401);
  });

  test("rejects the token of a service account", async () => {
    const account = { namespace: "default", name: "a", uid: "u" };
    const issued = api.server.tokens.issue({ account, audiences: ["test"], expirationSeconds: 600 });
    expect((await get(socket, "/api", { authorization: `Bearer ${issued.token}` })).status).toBe(401);
  });

  test("records requests in the audit log, with the user and the address of this machine", async () => {
    await get(socket, "/api/v1/namespaces/kube-public", asComponent);
    const read = (): readonly { readonly requestURI: string; readonly stage: string }[] =>
      readFileSync(join(folder, "audit.log"), "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line));
    await expect
      .poll(() => read().filter(({ requestURI, stage }) => requestURI.endsWith("/kube-public") && stage === "ResponseComplete"))
      .toEqual([
        expect.objectContaining({ user: expect.objectContaining({ username: "component" }), sourceIPs: ["127.0.0.1"] }),
      ]);
  });
});

test("closing the server ends watches of the Unix socket and removes it", async () => {
  const api = await serve("b");
  const socketPath = api.socketPath ?? "";
  const ended = get(socketPath, "/api/v1/namespaces?watch=true&timeoutSeconds=600", asComponent);
  await expect.poll(() => api.server.openWatches).toBe(1);
  await api.close();
  expect((await ended).status).toBe(200);
  await expect(get(socketPath, "/healthz", asComponent)).rejects.toMatchObject({ code: "ENOENT" });
});

test("a server replaces the socket that a killed server left behind", async () => {
  const path = join(folder, "c", "api", "server.sock");
  mkdirSync(join(folder, "c", "api"), { recursive: true, mode: 0o700 });
  writeFileSync(path, "");
  const api = await serve("c");
  expect((await get(path, "/healthz", asComponent)).text).toBe("ok");
  await api.close();
});

test("a server leaves a directory alone that other users can enter, and serves HTTPS", async () => {
  const failures: unknown[] = [];
  const shared = join(folder, "shared");
  mkdirSync(shared);
  chmodSync(shared, 0o755);
  const socketPath = join(shared, "server.sock");
  const api = await serve("e", { socketPath, onError: (error) => failures.push(error) });
  expect(api.socketPath).toBeUndefined();
  expect(failures).toEqual([expect.objectContaining({ message: `${shared}: must belong to this user with mode 0700` })]);
  expect(statSync(shared).mode & 0o777).toBe(0o755);
  await api.close();
});

test("a server that cannot protect its socket stops listening", async () => {
  const path = join(folder, "f", "server.sock");
  const server = createServer();
  server.once("listening", () => rmSync(path));
  await expect(listenOnSocket(server, path)).rejects.toMatchObject({ code: "ENOENT" });
  expect(server.listening).toBe(false);
});

test("a server whose socket cannot be created reports why and serves HTTPS", async () => {
  const failures: unknown[] = [];
  const socketPath = join(folder, "x".repeat(100), "server.sock");
  const api = await serve("d", { socketPath, onError: (error) => failures.push(error) });
  expect(api.socketPath).toBeUndefined();
  expect(failures).toEqual([
    expect.objectContaining({ message: `${socketPath}: the path of a Unix socket must have at most 107 bytes` }),
  ]);
  expect(api.url).toMatch(/^https:/);
  await api.close();
});
