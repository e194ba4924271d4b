import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import type { FlagValues } from "@keelson/operator";
import { FastPathService } from "@keelson/sandbox/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { authorizeCalls } from "../fastpath/access/authorize-calls.ts";
import type { AuthenticatedUser } from "@keelson/controller/access";
import { type FastPathServer, startFastPathServer } from "../fastpath/fastpath-server.ts";
import { runWith } from "./connection.ts";

const dayMs = 24 * 60 * 60 * 1000;
const notBefore = new Date(Date.now() - dayMs);
const notAfter = new Date(Date.now() + dayMs);
let dir: string;
let authority: KeyPair;
let server: FastPathServer;
let callers: string[];

const file = (name: string): string => join(dir, name);

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "sandbox-connection-"));
  authority = await createCertificateAuthority("test", notBefore, notAfter);
  const issue = (usage: "server" | "client") =>
    issueCertificate(authority, { commonName: "jane", usage, hosts: ["127.0.0.1"], notBefore, notAfter });
  const identities = {
    authenticate: async (token: string): Promise<AuthenticatedUser> => ({ username: `token ${token}` }),
    isAllowed: async ({ username }: AuthenticatedUser) => {
      callers.push(username);
      return username !== "token denied";
    },
  };
  server = await startFastPathServer({
    ...{ bindAddress: "127.0.0.1", port: 0, tls: { ...(await issue("server")), clientAuthorities: authority.certificate } },
    authorize: authorizeCalls({ staticToken: "static", identities, clock: systemClock }),
    routes: (router) => router.service(FastPathService, { listSandboxes: () => ({ items: [] }) }),
  });
  const { certificate, key } = await issue("client");
  writeFileSync(file("ca.crt"), authority.certificate);
  writeFileSync(file("static"), "static\n");
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  const users = [
    { name: "token", user: { token: "abc" } },
    { name: "denied", user: { token: "denied" } },
    {
      name: "certificate",
      user: { "client-certificate-data": base64(certificate), "client-key-data": base64(key) },
    },
    { name: "nothing", user: {} },
    { name: "impersonator", user: { token: "abc", as: "nobody" } },
  ];
  const kubeconfig = {
    clusters: [{ name: "one", cluster: { server: "https://127.0.0.1:1" } }],
    users,
    contexts: users.map(({ name }) => ({ name, context: { cluster: "one", user: name } })),
    "current-context": "token",
  };
  writeFileSync(file("kubeconfig"), JSON.stringify(kubeconfig));
});

afterAll(async () => {
  await server.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Lists sandboxes with these flags. Resolves to the exit status, what was written, and who called. */
async function list(flags: FlagValues, url = server.url.replace("http:", "https:")) {
  callers = [];
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const context = {
    ...{ args: [], stdout, stderr, clock: systemClock, log: silentLogger, signal: new AbortController().signal },
    flags: { endpoint: url, kubeconfig: file("kubeconfig"), ...flags },
    client: () => Promise.reject(new Error("not used")),
  };
  const code = await runWith(context, async ({ fastPath }) => {
    await fastPath.listSandboxes({ namespace: "default" });
    return 0;
  });
  return { code, callers, message: String(stderr.read() ?? "") };
}

describe("a command", () => {
  const tls = () => ({ "certificate-authority": file("ca.crt") });

  it("uses the kubeconfig's token or client certificate over TLS", async () => {
    expect(await list(tls())).toMatchObject({ code: 0, callers: ["token abc"] });
    expect(await list({ ...tls(), context: "certificate" })).toMatchObject({ code: 0, callers: ["jane"] });
  });

  it("reports a denied call with the user, the verb and the resource", async () => {
    const denied = await list({ ...tls(), context: "denied" });
    expect(denied).toMatchObject({ code: 1, message: expect.stringContaining('User "token denied" cannot list') });
  });

  it("never sends the kubeconfig's credentials without TLS, or to a server that it does not trust", async () => {
    const plain = await list({ "token-file": file("static") }, server.url);
    expect(plain).toMatchObject({ code: 0, callers: [] });
    const untrusted = await list({});
    expect(untrusted).toMatchObject({ code: 1, callers: [], message: expect.stringContaining("--certificate-authority") });
  });

  it("prefers a token file that is passed", async () => {
    expect(await list({ ...tls(), "token-file": file("static") })).toMatchObject({ code: 0, callers: [] });
  });

  it.each([
    ["nothing", /neither a token nor a client certificate/],
    ["impersonator", /impersonation/],
    ["missing", /context "missing" not found/],
  ])("explains why the kubeconfig's context %s cannot be used", async (context, message) => {
    const failed = await list({ ...tls(), context });
    expect(failed).toMatchObject({ code: 2, callers: [], message: expect.stringMatching(message) });
  });
});
