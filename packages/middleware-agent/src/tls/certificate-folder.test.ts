import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { CertificateFolder } from "./certificate-folder.ts";
import { certificateHash, type Certificates } from "./certificates.ts";
import { CertificateRotation } from "./certificate-rotation.ts";

const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "certificates-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function issue(): Promise<Certificates> {
  const ca = await createCertificateAuthority("test", validity.notBefore, validity.notAfter);
  const leaf = await issueCertificate(ca, { ...validity, commonName: "a", usage: "peer", hosts: ["a"] });
  return { authorities: ca.certificate, ...leaf };
}

let version = 0;
/** Replaces all files in one step, as the kubelet does. */
async function mount({ authorities, certificate, key }: Certificates): Promise<void> {
  const name = `..v${++version}`;
  await mkdir(join(folder, name));
  for (const [file, text] of Object.entries({ "ca.crt": authorities, "tls.crt": certificate, "tls.key": key }))
    await writeFile(join(folder, name, file), text);
  await symlink(name, join(folder, "..data_tmp"));
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
}

it("loads new certificates, keeps the current ones while those mounted cannot be used, and reports what is in force", async () => {
  const [first, second, third] = [await issue(), await issue(), await issue()];
  await mount(first);
  const opened = await CertificateFolder.open(folder, silentLogger);
  let failures = 2;
  const applied: Certificates[] = [];
  const changes: string[] = [];
  const rotation: CertificateRotation = new CertificateRotation({
    servers: [
      {
        folder: opened,
        initial: opened.current,
        apply() {
          if (failures-- > 0) throw new Error("the program does not respond");
          applied.push(opened.current);
        },
      },
    ],
    clock: { ...systemClock, setTimer: (_ms, callback) => systemClock.setTimer(0, callback) },
    log: silentLogger,
    onChange: () => changes.push(rotation.hash),
  });
  expect(rotation.hash).toBe(certificateHash([first]));
  await mount({ ...second, key: third.key });
  await mount(second);
  await expect.poll(() => changes, { timeout: 60_000 }).toEqual([certificateHash([second])]);
  expect(applied).toEqual([second]);
  await mount({ ...third, certificate: "" });
  await mount(third);
  await expect.poll(() => changes, { timeout: 60_000 }).toEqual([certificateHash([second]), certificateHash([third])]);
  rotation.stop();
});

it("starts a program with the certificates that it accepted last, while it does not accept those that are mounted", async () => {
  const acceptedFile = join(folder, "accepted.json");
  const [first, second] = [await issue(), await issue()];
  const attempts: Certificates[] = [];
  /** Runs a program that accepts only some certificates, until it was offered `last`. */
  const run = async (accepts: readonly Certificates[], last: Certificates): Promise<Certificates> => {
    const opened = await CertificateFolder.open(folder, silentLogger, { acceptedFile });
    const initial = opened.current;
    attempts.length = 0;
    const rotation = new CertificateRotation({
      servers: [
        {
          ...{ folder: opened, initial },
          apply() {
            attempts.push(opened.current);
            if (!accepts.some(({ key }) => key === opened.current.key)) throw new Error("key too small");
          },
        },
      ],
      ...{ clock: systemClock, log: silentLogger, onChange: () => undefined },
    });
    const hasEnded = (): boolean =>
      accepts.some(({ key }) => key === last.key) ? rotation.hash === certificateHash([last]) : attempts.length > 0;
    await expect.poll(hasEnded, { timeout: 60_000 }).toBe(true);
    await expect.poll(() => existsSync(acceptedFile), { timeout: 60_000 }).toBe(true);
    rotation.stop();
    return initial;
  };
  await mount(first);
  expect(await run([first], first)).toEqual(first);
  await mount(second);
  expect(await run([first], second)).toEqual(first);
  expect(attempts[0]).toEqual(second);
  // After a restart of the container.
  expect(await run([first], second)).toEqual(first);
});

it("keeps the accepted certificates after failed starts, and prefers the mounted ones only after a start with the accepted ones", async () => {
  const acceptedFile = join(folder, "accepted.json");
  const [first, second] = [await issue(), await issue()];
  /** The certificates of a start that fails for any reason. */
  const fail = async (): Promise<Certificates> => {
    const opened = await CertificateFolder.open(folder, silentLogger, { acceptedFile });
    await opened.recordFailure();
    opened.close();
    return opened.current;
  };
  await mount(first);
  const opened = await CertificateFolder.open(folder, silentLogger, { acceptedFile });
  await opened.accept(opened.current);
  opened.close();
  await mount({ ...second, key: "" });
  for (let start = 0; start < 3; start += 1) expect(await fail()).toEqual(first);
  await mount(second);
  expect([await fail(), await fail(), await fail()]).toEqual([second, first, second]);
});

it.each<[string, (pair: Certificates) => Partial<Certificates>]>([
  ["a key of another certificate", () => ({ key: "-----BEGIN PRIVATE KEY-----" })],
  ["no authority", () => ({ authorities: "" })],
])("rejects a directory with %s", async (_, damage) => {
  const pair = await issue();
  await mount({ ...pair, ...damage(pair) });
  await expect(CertificateFolder.open(folder, silentLogger)).rejects.toMatchObject({ code: "InvalidConfig" });
});
