import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { statusError } from "@keelson/api-machinery";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { createDeferred, type Deferred } from "@keelson/api-machinery/deferred";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type Logger, silentLogger } from "@keelson/controller";
import { FastPathService } from "@keelson/sandbox/protocol";
import { afterEach, beforeEach, expect, it } from "vitest";
import { authorizeCalls } from "../access/authorize-calls.ts";
import { createFastPathClient } from "../client.ts";
import { type FastPathServer, startFastPathServer } from "../fastpath-server.ts";
import { readCertificateFiles, ServingTls, type TlsMaterial } from "./serving-tls.ts";

const now = Date.now();
const validity = { notBefore: new Date(now - 3_600_000), notAfter: new Date(now + 3_600_000) };
let dir: string;
let clock: VirtualClock;
let authorities: KeyPair[];
/** Content of the ConfigMap, or why it cannot be read. */
let clientAuthorities: string | Error;
let warnings: string[];
let warned: Deferred<void>;
let applied: Deferred<void>;
let serving: ServingTls;
let server: FastPathServer | undefined;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "serving-tls-"));
  clock = createVirtualClock();
  authorities = [];
  for (const name of ["old", "new"])
    authorities.push(await createCertificateAuthority(name, validity.notBefore, validity.notAfter));
  clientAuthorities = "";
  warnings = [];
  [warned, applied] = [createDeferred<void>(), createDeferred<void>()];
  const warn = (_: unknown, message: string): void => {
    warnings.push(message);
    warned.resolve();
  };
  const log = { ...silentLogger, warn } as unknown as Logger;
  const get = async () => {
    if (clientAuthorities instanceof Error) throw clientAuthorities;
    return { data: { "client-ca-file": clientAuthorities } };
  };
  const certificate = () => readCertificateFiles(join(dir, "tls.crt"), join(dir, "tls.key"));
  serving = new ServingTls({ certificate, client: { get } as unknown as Client, clock, log });
});

afterEach(async () => {
  serving.stop();
  await server?.close();
  server = undefined;
  rmSync(dir, { recursive: true, force: true });
});

const authority = (index: number): KeyPair => authorities[index] ?? { certificate: "", key: "" };

/** Writes a certificate of this authority for the server. */
async function writePair(index: number): Promise<KeyPair> {
  const pair = await issueCertificate(authority(index), {
    commonName: "one",
    usage: "server",
    hosts: ["127.0.0.1"],
    ...validity,
  });
  writeFileSync(join(dir, "tls.crt"), pair.certificate);
  writeFileSync(join(dir, "tls.key"), pair.key);
  return pair;
}

/** Serves what is loaded now and follows its changes. */
async function serve(): Promise<void> {
  const material = await serving.load();
  const started = await startFastPathServer({
    ...{ bindAddress: "127.0.0.1", port: 0, tls: material, isTlsRequired: true },
    authorize: authorizeCalls({
      ...{ staticToken: undefined, clock: systemClock },
      identities: { authenticate: () => Promise.resolve(undefined), isAllowed: () => Promise.resolve(true) },
    }),
    routes: (router) => router.service(FastPathService, { listSandboxes: () => ({ items: [] }) }),
  });
  server = started;
  serving.follow(material, (next: TlsMaterial) => {
    started.setTls(next);
    applied.resolve();
  });
}

/** Calls over a new connection that trusts one authority, with a client certificate of another. */
async function call(trusted: number, signer: number): Promise<unknown> {
  const { certificate: cert, key } = await issueCertificate(authority(signer), {
    commonName: "jane",
    usage: "client",
    ...validity,
  });
  const tls = { ca: authority(trusted).certificate, cert, key };
  return createFastPathClient({ baseUrl: server?.url ?? "", tls }).fastPath.listSandboxes({});
}

it("uses a replaced certificate and other client authorities for new connections within a minute", async () => {
  clientAuthorities = authority(0).certificate;
  await writePair(0);
  await serve();
  await call(0, 0);
  await writePair(1);
  clientAuthorities = authority(1).certificate;
  await clock.advance(60_000);
  await applied.promise;
  await call(1, 1);
  await expect(call(0, 1)).rejects.toThrow(/certificate|issuer|signature/);
  await expect(call(1, 0)).rejects.toMatchObject({ code: Code.Unauthenticated });
});

it("keeps the certificate if the new one does not match its key, and logs that", async () => {
  clientAuthorities = authority(0).certificate;
  await writePair(0);
  await serve();
  const { key } = await writePair(0);
  await writePair(1);
  writeFileSync(join(dir, "tls.key"), key);
  await clock.advance(60_000);
  await warned.promise;
  expect(warnings).toEqual(["could not reload the certificate of the fast path; retrying"]);
  await call(0, 0);
});

it("has no client authorities if the ConfigMap has an empty one, instead of those of public web sites", async () => {
  await writePair(0);
  expect((await serving.load()).clientAuthorities).toBeUndefined();
});

it("logs once if the ConfigMap must not be read, and again after it could be", async () => {
  await writePair(0);
  for (const next of [statusError("Forbidden", "no"), statusError("Forbidden", "no"), "", statusError("Forbidden", "no")]) {
    clientAuthorities = next;
    await serving.load();
  }
  clientAuthorities = statusError("NotFound", "none");
  await serving.load();
  expect(warnings).toEqual(
    Array.from(
      { length: 2 },
      () => "cannot read ConfigMap kube-system/extension-apiserver-authentication; client certificates are not accepted",
    ),
  );
});

it("reports an address with https:// if callers need TLS", async () => {
  await writePair(0);
  await serve();
  expect(server?.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
});
