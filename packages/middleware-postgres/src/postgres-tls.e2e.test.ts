import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { type Certificates, type ProgramTls, type TlsMode } from "@keelson/middleware-agent";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fencePrimaryOf } from "./roles/switchover.ts";
import { password, type PostgresPod, PostgresPods } from "./testing/postgres-pod.ts";

let servers: PostgresPods;
let folder: string;
beforeAll(async () => {
  servers = await PostgresPods.install();
  folder = await mkdtemp(join(tmpdir(), "pg-tls-"));
});
afterAll(async () => {
  await servers.uninstall();
  await rm(folder, { recursive: true, force: true });
});

const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
const name = "db-postgres-nodes-primary.default.svc";
const authority = (): Promise<KeyPair> => createCertificateAuthority("test", validity.notBefore, validity.notAfter);

async function issue(ca: KeyPair, ...trusted: readonly KeyPair[]): Promise<Certificates> {
  const leaf = await issueCertificate(ca, { ...validity, commonName: "db", usage: "peer", hosts: [name] });
  return { authorities: [ca, ...trusted].map(({ certificate }) => certificate).join(""), ...leaf };
}

/** TLS with certificates that a test replaces. */
const tlsOf = (mode: TlsMode, source: { current: Certificates }): ProgramTls => ({
  mode,
  certificates: {
    get current() {
      return source.current;
    },
    onChange: () => undefined,
    close: () => undefined,
  },
});

const outcome = (connecting: Promise<AsyncDisposable>): Promise<string> =>
  connecting.then(
    async (connection) => {
      await connection[Symbol.asyncDispose]();
      return "connected";
    },
    (error: Error) => error.message,
  );

/** Connects as a client of libpq that verifies the authority and the name. */
async function psql({ host }: PostgresPod, authorities: string, serverName = name): Promise<string> {
  const file = join(folder, "ca.crt");
  await writeFile(file, authorities);
  const source = `host=${serverName} hostaddr=${host} port=5432 user=postgres dbname=postgres sslmode=verify-full sslrootcert=${file}`;
  const env = { PATH: process.env["PATH"], PGPASSWORD: password, LC_ALL: "C" };
  const run = promisify(execFile)("psql", ["-XAtc", "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()", source], {
    env,
  });
  return run.then(
    ({ stdout }) => stdout.trim(),
    (error: Error) => error.message,
  );
}

const isInSync = async ({ engine }: PostgresPod): Promise<string | undefined> =>
  (await engine.role().catch(() => undefined))?.info["isInSync"];

const replication = "SELECT ssl::text FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)";

async function follow(primary: PostgresPod, replica: PostgresPod): Promise<void> {
  await primary.engine.assign({ role: "primary", primaryHost: primary.host, epoch: 1 });
  await replica.engine.assign({ role: "replica", primaryHost: primary.host, epoch: 1 });
  await expect.poll(() => isInSync(replica), { timeout: 100_000 }).toBe("true");
}

describe("TLS of PostgreSQL", { timeout: 400_000 }, () => {
  it("is required of clients and replicas, verified with the published authority, and rotated under a client", async () => {
    const [first, second] = [await authority(), await authority()];
    const source = { current: await issue(first) };
    const pods = await servers.start(2, () => tlsOf("require", source));
    const [primary, replica] = pods;
    if (primary === undefined || replica === undefined) throw new Error("start: returned too few Pods");
    try {
      await follow(primary, replica);
      expect(await primary.run([[replication]])).toEqual([{ ssl: "true" }]);
      expect(await outcome(primary.connect(undefined))).toMatch(/rejects connection .*no encryption/);
      const stranger = { current: await issue(second) };
      expect(await outcome(primary.connect(tlsOf("require", stranger)))).toMatch(/certificate|signature/i);
      expect(await outcome(primary.connect(tlsOf("prefer", stranger)))).toMatch(/certificate|signature/i);
      expect(await psql(primary, first.certificate)).toMatch(/^TLSv1/);
      expect(await psql(primary, first.certificate, "other.default.svc")).toMatch(/does not match host name/);
      expect(await psql(primary, second.certificate)).toMatch(/certificate verify failed/);
      // A server that requires TLS must not be taken for one that accepts no clients.
      const record = { role: "replica", primaryHost: primary.host, epoch: 1 } as const;
      expect(await fencePrimaryOf(record, { port: 5_432, logins: () => [{ user: "postgres", password }] })).toMatchObject({
        ok: false,
        mustTerminate: true,
      });

      await using open = await primary.connect(primary.tls);
      for (const next of [await issue(first, second), await issue(second, first), await issue(second)]) {
        source.current = next;
        for (const { engine } of pods) await engine.reloadCertificates();
        expect(await open.run("SELECT 1::text AS one")).toEqual([{ one: "1" }]);
        expect(await primary.write(`key-${next.certificate.length}-${Math.random()}`)).toBe(true);
        expect(await psql(primary, next.authorities)).toMatch(/^TLSv1/);
      }
      expect(await psql(primary, first.certificate)).toMatch(/certificate verify failed/);
      // The replica connects again.
      await primary.run([["SELECT pg_terminate_backend(pid)::text FROM pg_stat_replication"]]);
      await expect.poll(() => primary.run([[replication]]), { timeout: 100_000 }).toEqual([{ ssl: "true" }]);

      await primary.kill();
      await expect
        .poll(() => replica.engine.failover({ target: replica.host, others: [], epoch: 2, timeoutMs: 10_000 }), {
          timeout: 100_000,
        })
        .toEqual({ ok: true });
      expect(await psql(replica, second.certificate)).toMatch(/^TLSv1/);
    } finally {
      await servers.stop(pods);
    }
  });

  it("is introduced and required Pod by Pod: replicas follow a primary of the mode before", async () => {
    const source = { current: await issue(await authority()) };
    const modes = [undefined, tlsOf("prefer", source), tlsOf("require", source)];
    for (const [own, next] of [
      [0, 1],
      [1, 2],
    ] as const) {
      const pods = await servers.start(2, (index) => modes[index === 0 ? own : next]);
      const [primary, replica] = pods;
      if (primary === undefined || replica === undefined) throw new Error("start: returned too few Pods");
      try {
        await follow(primary, replica);
        expect(await primary.run([[replication]])).toEqual([{ ssl: String(own > 0) }]);
        expect(await primary.engine.failover({ target: replica.host, others: [], epoch: 2, timeoutMs: 30_000 })).toEqual({
          ok: true,
        });
        await expect.poll(() => isInSync(primary), { timeout: 100_000 }).toBe("true");
        if (own > 0) expect(await replica.run([[replication]])).toEqual([{ ssl: "true" }]);
      } finally {
        await servers.stop(pods);
      }
    }
  });
});
