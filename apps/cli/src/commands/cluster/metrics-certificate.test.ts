import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import { createProbeServer } from "@keelson/controller/probes";
import type { FlagValues } from "@keelson/operator/flags";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { metricsCertificate } from "./metrics-certificate.ts";

const loopback = { host: "127.0.0.1", port: 0 };
const everywhere = { host: "0.0.0.0", port: 0 };
const context = { clock: createVirtualClock(Date.now()), log: silentLogger };
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "metrics-certificate-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const select = (flags: FlagValues, address = everywhere) => metricsCertificate(flags, address, context);

/** Writes a certificate with this name. */
async function write(name: string): Promise<KeyPair> {
  const [notBefore, notAfter] = [new Date(Date.now() - 3_600_000), new Date(Date.now() + 3_600_000)];
  const authority = await createCertificateAuthority("ca", notBefore, notAfter);
  const pair = await issueCertificate(authority, {
    commonName: name,
    usage: "server",
    hosts: ["127.0.0.1"],
    notBefore,
    notAfter,
  });
  writeFileSync(join(dir, "tls.crt"), pair.certificate);
  writeFileSync(join(dir, "tls.key"), pair.key);
  return pair;
}

const files = () => ({
  "metrics-tls-cert-file": join(dir, "tls.crt"),
  "metrics-tls-private-key-file": join(dir, "tls.key"),
});

/** The status of a request, and the name in the server's certificate. */
function ask(url: string): Promise<readonly [status: number | undefined, name: unknown]> {
  return new Promise((resolve, reject) => {
    get(url, { rejectUnauthorized: false, agent: false }, (response) => {
      const { CN } = (response.socket as TLSSocket).getPeerCertificate().subject;
      response.resume();
      resolve([response.statusCode, CN]);
    }).once("error", reject);
  });
}

it("serves TLS beyond loopback unless it is disabled", async () => {
  expect(await select({}, loopback)).toBeUndefined();
  expect(await select({ "metrics-tls": "never" })).toBeUndefined();
  expect(await metricsCertificate({ "metrics-tls": "always" }, undefined, context)).toBeUndefined();
  expect(await select({ "metrics-tls": "always" }, loopback)).toBeDefined();
  const certificate = await select({});
  if (certificate === undefined) throw new Error("no certificate");
  await using server = createProbeServer({ tls: certificate.initial });
  const url = await server.listen(0);
  expect(url).toMatch(/^https:/);
  expect(await ask(`${url}/healthz`)).toEqual([200, "keelson-metrics"]);
});

it("reads the certificate from files, and follows them", async () => {
  await write("first");
  const clock = createVirtualClock(Date.now());
  const warn = vi.fn<Logger["warn"]>();
  const log = { ...silentLogger, warn } as unknown as Logger;
  const followed = await metricsCertificate(files(), loopback, { clock, log });
  if (followed === undefined) throw new Error("no certificate");
  await using server = createProbeServer({ tls: followed.initial });
  const stop = followed.follow((pair) => server.setCertificate(pair));
  const url = await server.listen(0);
  expect(await ask(`${url}/healthz`)).toEqual([200, "first"]);

  writeFileSync(join(dir, "tls.crt"), "damaged");
  await clock.advance(60_000);
  await vi.waitFor(() => expect(warn).toHaveBeenCalled(), 30_000);
  expect(await ask(`${url}/healthz`)).toEqual([200, "first"]);

  await write("second");
  await vi.waitFor(async () => {
    await clock.advance(60_000);
    expect(await ask(`${url}/healthz`)).toEqual([200, "second"]);
  }, 30_000);
  stop();
});

it("names what is wrong with the files", async () => {
  await expect(select({ "metrics-tls-cert-file": "x" })).rejects.toThrow(/must be set together$/);
  await expect(select(files())).rejects.toThrow(/^--metrics-tls-cert-file: ENOENT/);
});
