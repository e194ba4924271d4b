import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { NodeCredentials } from "./node-credentials.ts";

const day = 24 * 60 * 60 * 1000;
const start = Date.parse("2026-01-01T00:00:00Z");
let folder: string;
let authority: KeyPair;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "node-credentials-"));
  authority = await createCertificateAuthority("ca", new Date(start), new Date(start + 900 * day));
});
afterEach(() => rmSync(folder, { recursive: true }));

const issue = (from: number, name = "laptop", validMs = 100 * day): Promise<KeyPair> =>
  issueCertificate(authority, {
    ...{ commonName: `system:node:${name}`, organizations: ["system:nodes"], usage: "client" },
    ...{ notBefore: new Date(from), notAfter: new Date(from + validMs) },
  });
const open = (clock = createVirtualClock(start)): NodeCredentials =>
  new NodeCredentials({ folder, nodeName: "laptop", clock, log: silentLogger });

it("stores the certificate for the owner only, and loads it until it expires", async () => {
  const pair = await issue(start);
  const first = open();
  expect(await first.load()).toBe(false);
  await first.replace(pair);
  expect(statSync(join(folder, "node.json")).mode & 0o777).toBe(0o600);
  const second = open();
  expect(await second.load()).toBe(true);
  expect(await second.get()).toEqual({ clientCertificate: pair.certificate, clientKey: pair.key });
  expect(await open(createVirtualClock(start + 100 * day)).load()).toBe(false);
});

it("ignores a certificate of another node and a damaged file", async () => {
  await open().replace(await issue(start, "other"));
  expect(await open().load()).toBe(false);
  await open().replace(await issue(start));
  const file = join(folder, "node.json");
  writeFileSync(file, readFileSync(file, "utf8").slice(0, 100));
  expect(await open().load()).toBe(false);
});

it("renews the certificate after four fifths of its validity, and retries hourly", async () => {
  const clock = createVirtualClock(start);
  const credentials = open(clock);
  await credentials.replace(await issue(start));
  const second = await issue(start + 80 * day);
  let requests = 0;
  credentials.renewBy(() => (++requests === 1 ? Promise.reject(new Error("not approved")) : Promise.resolve(second)));
  for (let passed = 0; passed < 80; passed++) {
    expect(requests).toBe(0);
    await clock.advance(day);
  }
  expect(requests).toBe(1);
  await clock.advance(60 * 60 * 1000);
  await expect.poll(() => credentials.get()).toMatchObject({ clientCertificate: second.certificate });
  credentials.stop();
  await clock.advance(200 * day);
  expect(requests).toBe(2);
});

it("renews short-lived certificates in time, repeatedly", async () => {
  const clock = createVirtualClock(start);
  const credentials = open(clock);
  await credentials.replace(await issue(start, "laptop", day));
  let requests = 0;
  credentials.renewBy(() => {
    requests++;
    return issue(clock.now(), "laptop", day);
  });
  for (let hour = 0; hour < 96; hour += 2) {
    await clock.advance(2 * 60 * 60 * 1000);
    // Signing takes a turn of the event loop.
    const expected = Math.floor(((hour + 2) / 24) * 1.25);
    await expect.poll(() => requests).toBeGreaterThanOrEqual(Math.min(expected, 3));
    await expect
      .poll(async () => Date.parse(new X509Certificate((await credentials.get()).clientCertificate ?? "").validTo))
      .toBeGreaterThan(clock.now());
  }
  credentials.stop();
});
