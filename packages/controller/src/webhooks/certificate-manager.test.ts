import { X509Certificate } from "node:crypto";
import { Secret } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { describe, expect, it } from "vitest";
import { CertificateManager, type CurrentCertificates, memoryCertificateStore } from "./certificate-manager.ts";
import { secretCertificateStore } from "./secret-store.ts";

const day = 24 * 60 * 60 * 1000;

/** The certificates of a bundle. */
function authorities({ bundle }: CurrentCertificates): X509Certificate[] {
  return (bundle.match(/-----BEGIN[^]*?-----END CERTIFICATE-----/g) ?? []).map((pem) => new X509Certificate(pem));
}

function isTrusted(server: CurrentCertificates, client: CurrentCertificates): boolean {
  const leaf = new X509Certificate(server.server.certificate);
  return authorities(client).some((authority) => leaf.checkIssued(authority) && leaf.verify(authority.publicKey));
}

describe("CertificateManager", () => {
  it("renews over eleven years, and every certificate is trusted by clients of the step before and after", async () => {
    const clock = createVirtualClock();
    const manager = new CertificateManager(memoryCertificateStore(), clock, ["127.0.0.1"]);
    let current = await manager.ensure();
    const seen = new Set([current.bundle]);
    for (const end = clock.now() + 11 * 365 * day; clock.now() < end; ) {
      await clock.advance(current.renewAtMs - clock.now());
      const next = await manager.ensure();
      expect(isTrusted(next, next)).toBe(true);
      expect(isTrusted(next, current)).toBe(true);
      expect(isTrusted(current, next)).toBe(true);
      expect(next.renewAtMs).toBeGreaterThan(clock.now());
      current = next;
      seen.add(current.bundle);
    }
    // The first authority; with the next one; and the next one with the replaced one.
    expect(seen.size).toBe(3);
  });

  it("shares the certificates of a Secret among replicas that start at the same time", async () => {
    await using environment = await startTestEnvironment();
    const client = createClient({ transport: environment.transport(), fieldManager: "test" });
    const key = { namespace: "default", name: "certificates" };
    const replica = () => new CertificateManager(secretCertificateStore(client, key), environment.clock, ["hook.default.svc"]);
    const all = await Promise.all([replica().ensure(), replica().ensure(), replica().ensure()]);
    expect(new Set(all.map(({ server }) => server.key)).size).toBe(1);
    expect((await client.get(Secret, key)).type).toBe("kubernetes.io/tls");
  });

  it("replaces certificates that cannot be read, and those for other hosts with the same authority", async () => {
    await using environment = await startTestEnvironment();
    const client = createClient({ transport: environment.transport(), fieldManager: "test" });
    const key = { namespace: "default", name: "certificates" };
    const ensure = (host: string) =>
      new CertificateManager(secretCertificateStore(client, key), environment.clock, [host]).ensure();
    const data = { "tls.crt": "eA==", "tls.key": "eA==" };
    await client.create(Secret, { metadata: key, type: "kubernetes.io/tls", data });
    const first = await ensure("a.default.svc");
    const second = await ensure("b.default.svc");
    expect(second.bundle).toBe(first.bundle);
    expect(new X509Certificate(second.server.certificate).checkHost("b.default.svc")).toBe("b.default.svc");
  });
});
