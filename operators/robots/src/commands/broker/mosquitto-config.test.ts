import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Robot } from "../../api/robot.ts";
import { robots } from "../../operator.ts";
import { mosquittoConfigCommand } from "./mosquitto-config.ts";

const t0 = Date.UTC(2026, 0, 1);
let dir: string;
let environment: TestEnvironment;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-mosquitto-config-"));
  environment = await startTestEnvironment({ crds: robots.resources.map((resource) => resource.crd) });
});

afterAll(async () => {
  await environment.stop();
  rmSync(dir, { recursive: true, force: true });
});

const connect = () => createClient({ transport: environment.transport(), fieldManager: "test" });

async function run(now: number, flags: Record<string, string | readonly string[]> = {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const exitCode = await mosquittoConfigCommand.run({
    ...{ args: [], flags: { dir: join(dir, "broker"), ...flags }, stdout, stderr, log: silentLogger },
    ...{ clock: createVirtualClock(now), signal: new AbortController().signal, client: async () => connect() },
  });
  return { exitCode, stderr: String(stderr.read() ?? "") };
}

const read = (name: string) => readFileSync(join(dir, "broker", name), "utf8");

it("keeps the server's certificate and the modes of existing files until the certificate has to be replaced", async () => {
  expect(await run(t0)).toEqual({ exitCode: 0, stderr: "" });
  const modeOf = (name: string) => statSync(join(dir, "broker", name)).mode & 0o777;
  expect([modeOf("server.key"), modeOf("join-users"), modeOf("mosquitto.conf")]).toEqual([0o600, 0o600, 0o644]);
  const [certificate, key, list] = [read("server.crt"), read("server.key"), read("crl.pem")];
  chmodSync(join(dir, "broker", "server.key"), 0o640);
  await run(t0 + 60_000);
  expect([read("server.crt"), read("server.key"), modeOf("server.key")]).toEqual([certificate, key, 0o640]);
  expect(read("crl.pem")).not.toBe(list);
  expect(readdirSync(join(dir, "broker")).filter((name) => name.endsWith(".new"))).toEqual([]);
  await run(t0 + 4.5 * 365 * 86_400_000);
  expect(read("server.crt")).not.toBe(certificate);
});

it.each(["keelson-robots-exec", "Keelson-Robots-Exec."])("rejects the exec server's name %s as a host", async (name) => {
  const host = ["broker.example.com", name];
  await expect(run(t0, { host })).rejects.toThrow("must not be the name of the exec server's certificate");
});

it("names a robot whose certificate is damaged, and writes the revocation list of the others", async () => {
  const client = connect();
  const metadata = { name: "damaged", namespace: "default" };
  await client.create(Robot, { metadata, spec: { robotId: "damaged" } });
  const identity = { keySha256: "0".repeat(64), publicKey: "x", certificate: "x", expires: new Date(t0).toISOString() };
  await client.applyStatus(Robot, { metadata, status: { identity } }, { fieldManager: "test" });
  await client.close();
  rmSync(join(dir, "broker", "crl.pem"));
  const { exitCode, stderr } = await run(t0);
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/^robot damaged: status.identity.certificate is damaged/);
  expect(read("crl.pem")).toContain("X509 CRL");
});
