import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { certificateDefect, createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";
import { kubeconfigYaml, writeKubeconfig } from "./kubeconfig.ts";
import { ensurePki, issueClientCertificate, serverHosts } from "./pki.ts";

const day = 24 * 60 * 60 * 1000;
const now = Date.now();

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-pki-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe("the files of the certificate authority", () => {
  test("rejects a corrupt token key by name instead of replacing it", async () => {
    await ensurePki(directory, now);
    const path = join(directory, "sa.key");
    await writeFile(path, "garbage");
    await expect(ensurePki(directory, now)).rejects.toThrow(`${path} is not a valid private key`);
    expect(await readFile(path, "utf8")).toBe("garbage");
  });

  test("are readable by their owner only and reused on the next start", async () => {
    const first = await ensurePki(join(directory, "pki"), now);
    const second = await ensurePki(join(directory, "pki"), now + day);
    expect(second).toEqual(first);
    const names = await readdir(join(directory, "pki"));
    const pairs = ["admin", "apiserver-kubelet-client", "apiserver", "ca", "front-proxy-ca", "front-proxy-client"];
    expect(names.sort()).toEqual([...pairs.flatMap((name) => [`${name}.crt`, `${name}.key`]), "sa.key"]);
    const modes = await Promise.all(names.map(async (name) => (await stat(join(directory, "pki", name))).mode & 0o777));
    expect(modes).toEqual(names.map(() => 0o600));
    expect((await stat(join(directory, "pki"))).mode & 0o777).toBe(0o700);
  });

  test("name every host of the server, and further requested ones", async () => {
    const { server } = await ensurePki(directory, now);
    const certificate = new X509Certificate(server.certificate);
    expect(serverHosts.filter((host) => (certificate.checkHost(host) ?? certificate.checkIP(host)) === undefined)).toEqual([]);
    expect(certificate.checkIP("192.0.2.7")).toBeUndefined();
    const wider = await ensurePki(directory, now, ["192.0.2.7", "robot.example"]);
    expect(new X509Certificate(wider.server.certificate).checkIP("192.0.2.7")).toBe("192.0.2.7");
    expect(new X509Certificate(wider.server.certificate).checkHost("robot.example")).toBe("robot.example");
    const named = await ensurePki(directory, now, ["other.example"]);
    expect(new X509Certificate(named.server.certificate).checkHost("other.example")).toBe("other.example");
    expect(wider.authority).toEqual((await ensurePki(directory, now)).authority);
  });

  test("are renewed near their expiry: leaves under the same authority, then the authority with all leaves", async () => {
    const first = await ensurePki(directory, now);
    const later = await ensurePki(directory, now + 336 * day);
    expect(later.authority).toEqual(first.authority);
    expect(later.tokenKey).toBe(first.tokenKey);
    expect(later.server.certificate).not.toBe(first.server.certificate);
    expect(later.admin.certificate).not.toBe(first.admin.certificate);
    const muchLater = await ensurePki(directory, now + 9 * 365 * day);
    expect(muchLater.authority.certificate).not.toBe(first.authority.certificate);
    expect(certificateDefect(muchLater.admin, muchLater.authority, now + 9 * 365 * day, now + 9.5 * 365 * day)).toBeUndefined();
  });

  test.each([
    [
      "a certificate whose key a crash left behind",
      "apiserver.crt",
      (other: string) => readFile(join(other, "apiserver.crt"), "utf8"),
    ],
    ["a file that is cut off", "admin.key", async () => "-----BEGIN PRIVATE KEY-----\nMIG"],
    ["an authority that did not sign the rest", "ca.crt", (other: string) => readFile(join(other, "ca.crt"), "utf8")],
  ])("are made anew for %s", async (_, file, content) => {
    const other = join(directory, "other");
    await ensurePki(other, now);
    const mine = join(directory, "mine");
    await ensurePki(mine, now);
    await writeFile(join(mine, file), await content(other));
    const pki = await ensurePki(mine, now);
    for (const pair of [pki.server, pki.admin]) expect(certificateDefect(pair, pki.authority, now, now + day)).toBeUndefined();
  });
});

describe("a certificate", () => {
  test("contains user and groups with any characters", async () => {
    const pki = await ensurePki(directory, now);
    const groups = ["system:masters", "a, b=c", '#"quoted"', "système", "CN=root"];
    const pair = await issueClientCertificate(pki, { name: "#04 bob, O=system:masters", groups }, now);
    const subject = new X509Certificate(pair.certificate).toLegacyObject().subject;
    expect(subject.CN).toBe("#04 bob, O=system:masters");
    expect(subject.O).toEqual(groups);
  });

  test("is accepted by OpenSSL for its usage only", async () => {
    const pki = await ensurePki(directory, now);
    const verify = (file: string, purpose: string): string =>
      execFileSync(
        "openssl",
        ["verify", "-x509_strict", "-CAfile", join(directory, "ca.crt"), "-purpose", purpose, join(directory, file)],
        {
          encoding: "utf8",
          stdio: ["ignore", "pipe", "ignore"],
        },
      );
    expect(verify("apiserver.crt", "sslserver")).toContain("OK");
    expect(verify("admin.crt", "sslclient")).toContain("OK");
    expect(() => verify("admin.crt", "sslserver")).toThrow(/Command failed/);
    expect(pki.admin.key).toContain("PRIVATE KEY");
  });

  test("is invalid if it is expired, not yet valid, or of another key or authority", async () => {
    const span = [new Date(now - day), new Date(now + 10 * day)] as const;
    const authority = await createCertificateAuthority("a", ...span);
    const stranger = await createCertificateAuthority("a", ...span);
    const pair = await issueCertificate(authority, { commonName: "x", usage: "client", notBefore: span[0], notAfter: span[1] });
    expect(certificateDefect(pair, authority, now, now)).toBeUndefined();
    expect(certificateDefect(pair, authority, now + 11 * day, now + 11 * day)).toMatch(/expiry/);
    expect(certificateDefect(pair, authority, now - 2 * day, now)).toMatch(/not yet valid/);
    expect(certificateDefect(pair, stranger, now, now)).toMatch(/another authority/);
    expect(certificateDefect({ ...pair, key: stranger.key }, authority, now, now)).toMatch(/does not match the certificate/);
    expect(certificateDefect({ certificate: "nonsense", key: pair.key }, authority, now, now)).toMatch(/cannot be parsed/);
  });
});

describe("a kubeconfig", () => {
  test("is valid for kubectl, self-contained, and readable by its owner only", async () => {
    const pki = await ensurePki(directory, now);
    const path = join(directory, "kubeconfig");
    await writeKubeconfig(path, {
      server: "https://127.0.0.1:6443",
      authority: pki.authority.certificate,
      credentials: pki.admin,
    });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const { parse } = await import("yaml");
    const config = parse(await readFile(path, "utf8"));
    expect(config["current-context"]).toBe("keelson");
    expect(config.contexts[0]).toEqual({
      name: "keelson",
      context: { cluster: "keelson", user: "keelson-admin", namespace: "default" },
    });
    expect(config.clusters[0].cluster.server).toBe("https://127.0.0.1:6443");
    const data = (value: string): string => Buffer.from(value, "base64").toString();
    expect(data(config.clusters[0].cluster["certificate-authority-data"])).toBe(pki.authority.certificate);
    expect(data(config.users[0].user["client-certificate-data"])).toBe(pki.admin.certificate);
    expect(data(config.users[0].user["client-key-data"])).toBe(pki.admin.key);
  });

  test("may contain a token, and quotes names that YAML would misread", async () => {
    const { parse } = await import("yaml");
    const config = parse(
      kubeconfigYaml({
        server: "https://h:1",
        authority: "x",
        name: "true",
        namespace: "0x1: y",
        credentials: { token: 'a"b' },
      }),
    );
    expect(config.users[0].user).toEqual({ token: 'a"b' });
    expect(config.contexts[0].name).toBe("true");
    expect(config.contexts[0].context.namespace).toBe("0x1: y");
  });
});
