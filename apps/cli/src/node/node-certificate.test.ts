import { X509Certificate } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCertificateAuthority } from "@keelson/api-machinery/certificates";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { ClusterRole, ClusterRoleBinding } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { createCertificateSigner } from "@keelson/apiserver/certificates";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { CertificateSigningRequest, startCluster, storedKinds } from "@keelson/cluster";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type NodeCertificateOptions, requestNodeCertificate } from "./node-certificate.ts";

let environment: TestEnvironment;
let client: Client;
let folder: string;
const stops: (() => Promise<void>)[] = [];
const signal = new AbortController().signal;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "node-certificate-"));
  environment = await startTestEnvironment({ clock: systemClock });
  client = clientOf();
  const authority = await createCertificateAuthority("ca", new Date(Date.now() - 60_000), new Date(Date.now() + 86_400_000));
  const cluster = await startCluster({
    ...{ client, clock: systemClock, log: silentLogger, kinds: storedKinds(environment.resources) },
    certificateSigner: createCertificateSigner(authority),
  });
  stops.push(() => cluster.stop());
});
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  await environment.stop();
  rmSync(folder, { recursive: true });
});

const clientOf = (user?: { username: string; groups: string[] }): Client =>
  createClient({ transport: environment.transport(user), fieldManager: "test" });

const options = (more: Partial<NodeCertificateOptions> = {}): NodeCertificateOptions => ({
  ...{ client, nodeName: "laptop", folder, clock: systemClock, signal },
  print: (line) => expect.fail(line),
  ...more,
});

/** A user who may create requests, but not approve them. */
async function joiner(): Promise<Client> {
  const rules = [
    { apiGroups: ["certificates.k8s.io"], resources: ["certificatesigningrequests"], verbs: ["create", "get", "watch"] },
  ];
  await client.create(ClusterRole, { metadata: { name: "joiner" }, rules });
  await client.create(ClusterRoleBinding, {
    metadata: { name: "joiner" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "joiner" },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "jane" }],
  });
  return clientOf({ username: "jane", groups: ["system:authenticated"] });
}

/** Resolves to the name in the line that asks for the approval, and to the result. */
function startJoining(by: Client) {
  const line = createDeferred<string>();
  const done = requestNodeCertificate(options({ client: by, print: line.resolve }));
  done.catch(() => {});
  return { name: line.promise.then((text) => text.split(" ").at(-1) ?? ""), done };
}

async function decide(name: string, type: "Approved" | "Denied", message = ""): Promise<void> {
  const request = await client.get(CertificateSigningRequest, { name });
  const conditions = [{ type, status: "True", reason: "Test", message }];
  await client.update(CertificateSigningRequest, { ...request, status: { conditions } }, { subresource: "approval" });
}

it("approves its own request if it may, and gets a certificate of the node", async () => {
  const { certificate, key } = await requestNodeCertificate(options());
  const parsed = new X509Certificate(certificate);
  expect(parsed.subject).toBe("O=system:nodes\nCN=system:node:laptop");
  expect(key).toContain("PRIVATE KEY");
  expect(readdirSync(folder)).toEqual([]);
});

it("names the command that approves the request, and waits", async () => {
  const { name, done } = startJoining(await joiner());
  await decide(await name, "Approved");
  expect(new X509Certificate((await done).certificate).subject).toContain("system:node:laptop");
});

it("fails with the reason of a denial, and creates a new request on the next attempt", async () => {
  const by = await joiner();
  const { name, done } = startJoining(by);
  const first = await name;
  await decide(first, "Denied", "unknown machine");
  await expect(done).rejects.toThrow(`the certificate request ${first} was denied: unknown machine`);
  const again = startJoining(by);
  expect(await again.name).not.toBe(first);
  await decide(await again.name, "Approved");
  await again.done;
});

it("continues with the pending request after a restart", async () => {
  const by = await joiner();
  const stopped = new AbortController();
  const line = new Promise<string>((resolve) => {
    const print = (text: string): void => {
      resolve(text);
      stopped.abort(new Error("stopped"));
    };
    requestNodeCertificate(options({ client: by, print, signal: stopped.signal })).catch(() => {});
  });
  const name = (await line).split(" ").at(-1) ?? "";
  const again = startJoining(by);
  expect(await again.name).toBe(name);
  await decide(name, "Approved");
  await again.done;
});
