import { createPrivateKey, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readFile } from "node:fs/promises";
import { connect, createServer } from "node:tls";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, expect, it } from "vitest";
import { authorityFile, ensureOwnCertificate } from "./own-certificate.ts";

const dayMs = 24 * 60 * 60 * 1000;
const start = Date.parse("2030-01-01T00:00:00Z");
let dataDir: string;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "own-certificate-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const ensure = (afterDays = 0, hosts: readonly string[] = ["localhost", "127.0.0.1"]) =>
  ensureOwnCertificate({ dataDir, hosts, clock: { now: () => start + afterDays * dayMs } });

const readAuthority = () => readFile(authorityFile(dataDir), "utf8");

it("keeps the certificate across starts, valid for its hosts, with keys that only the owner can read", async () => {
  const first = await ensure();
  expect(await ensure(1)).toEqual(first);
  const leaf = new X509Certificate(first.certificate);
  expect([leaf.checkHost("localhost"), leaf.checkIP("127.0.0.1"), leaf.checkHost("elsewhere")]).toEqual([
    "localhost",
    "127.0.0.1",
    undefined,
  ]);
  expect(leaf.verify(new X509Certificate(await readAuthority()).publicKey)).toBe(true);
  const modes = ["fastpath-tls.key", "fastpath-ca.key"].map((name) => statSync(join(dataDir, name)).mode & 0o777);
  expect(modes).toEqual([0o600, 0o600]);
});

it("covers the names below a host, and is kept across starts", async () => {
  const hosts = ["boxes.example", "*.boxes.example"];
  const first = await ensure(0, hosts);
  expect(new X509Certificate(first.certificate).checkHost("8080-a.boxes.example")).toBeDefined();
  expect(await ensure(1, hosts)).toEqual(first);
});

it("is trusted by clients that trust the authority", async () => {
  const { certificate: cert, key } = await ensureOwnCertificate({ dataDir, hosts: ["127.0.0.1"], clock: systemClock });
  const server = createServer({ cert, key }, (socket) => socket.end());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: "127.0.0.1", ca: await readAuthority() });
  await once(client, "secureConnect");
  expect(client.authorized).toBe(true);
  client.destroy();
  await new Promise((resolve) => server.close(resolve));
});

it("renews the certificate 30 days before its expiry, and for other hosts, under the same authority", async () => {
  const first = await ensure();
  const authority = await readAuthority();
  expect(await ensure(59)).toEqual(first);
  const renewed = await ensure(61);
  expect(renewed.certificate).not.toBe(first.certificate);
  const more = await ensure(61, ["localhost", "keelson-sandboxes"]);
  expect(new X509Certificate(more.certificate).checkHost("keelson-sandboxes")).toBe("keelson-sandboxes");
  expect(await readAuthority()).toBe(authority);
});

it("replaces damaged files, and an authority that would expire before its certificate", async () => {
  await ensure();
  writeFileSync(join(dataDir, "fastpath-tls.key"), "damaged");
  const repaired = await ensure();
  expect(new X509Certificate(repaired.certificate).checkPrivateKey(createPrivateKey(repaired.key))).toBe(true);
  expect(new X509Certificate(repaired.certificate).verify(new X509Certificate(await readAuthority()).publicKey)).toBe(true);
  const authority = await readAuthority();
  await ensure(3650 - 89);
  expect(await readAuthority()).not.toBe(authority);
});

it("keeps the authority if its key cannot be read", async () => {
  await ensure();
  const authority = await readAuthority();
  const key = join(dataDir, "fastpath-ca.key");
  rmSync(key);
  // Fails to be read by any user, and can be replaced.
  symlinkSync(key, key);
  await expect(ensure()).rejects.toMatchObject({ code: "ELOOP" });
  expect(await readAuthority()).toBe(authority);
});

it("makes the authority readable for clients after a crash in between", async () => {
  await ensure();
  chmodSync(authorityFile(dataDir), 0o600);
  await ensure();
  expect(statSync(authorityFile(dataDir)).mode & 0o777).toBe(0o644);
});
