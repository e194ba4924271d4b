import {
  chmodSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { maxSignatureMs, UrlSigner } from "./url-signer.ts";

const hourMs = 60 * 60 * 1000;
const target = { sandboxId: "a1", port: 8080 };
let dir: string;
let file: string;
let clock: VirtualClock;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "url-signer-"));
  file = join(dir, "keys.json");
  clock = createVirtualClock();
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

const keyIds = (): readonly string[] =>
  (JSON.parse(readFileSync(file, "utf8")) as { keys: { id: string }[] }).keys.map(({ id }) => id);

describe("a signature", () => {
  it("is valid for its port and sandbox until it expires, including for a process that opens the keys later", async () => {
    const signer = await UrlSigner.open(file, clock);
    const expiry = clock.now() + hourMs;
    const signature = await signer.sign(target, expiry);
    for (const each of [signer, await UrlSigner.open(file, clock)]) {
      expect(each.verify(target, signature)).toBe(Math.floor(expiry / 1000) * 1000);
      expect(each.verify({ ...target, port: 8081 }, signature)).toBeUndefined();
      expect(each.verify({ ...target, sandboxId: "a18080" }, signature)).toBeUndefined();
    }
    await clock.advance(hourMs);
    expect(signer.verify(target, signature)).toBeUndefined();
  });

  it("is not valid with another expiry, digest or key, nor in another form", async () => {
    const signer = await UrlSigner.open(file, clock);
    const [id = "", expiry = "", digest = ""] = (await signer.sign(target, clock.now() + hourMs)).split(".");
    const forged = [
      `${id}.${Number(expiry) + 1}.${digest}`,
      `${id}.${expiry}.${digest.slice(0, -2)}AA`,
      `${"0".repeat(16)}.${expiry}.${digest}`,
      `${id}.${expiry}.`,
      `${id}.${expiry}.${digest}.x`,
      "",
    ];
    for (const each of forged) expect(signer.verify(target, each)).toBeUndefined();
  });

  it("outlives the replacement of its key, which is removed after the last one has expired", async () => {
    const signer = await UrlSigner.open(file, clock);
    const signature = await signer.sign(target, clock.now() + maxSignatureMs);
    const [first] = keyIds();
    await clock.advance(25 * hourMs);
    await signer.sign(target, clock.now() + hourMs);
    expect(keyIds()).toHaveLength(2);
    expect(keyIds()[0]).not.toBe(first);
    expect(signer.verify(target, signature)).toBeDefined();
    await clock.advance(maxSignatureMs);
    await signer.sign(target, clock.now() + hourMs);
    expect(keyIds()).not.toContain(first);
  });

  it("comes from a key that only the owner of its file can read, and never from a damaged one", async () => {
    writeFileSync(file, JSON.stringify({ keys: [{ id: "0".repeat(16), secret: "", createdAtMs: clock.now() }] }));
    const signer = await UrlSigner.open(file, clock);
    await Promise.all([signer.sign(target, clock.now() + hourMs), signer.sign(target, clock.now() + hourMs)]);
    expect(keyIds()).toHaveLength(1);
    expect(keyIds()[0]).not.toBe("0".repeat(16));
    expect(statSync(file).mode & 0o077).toBe(0);
  });

  it.each([
    ["that others can read", () => chmodSync(file, 0o644)],
    ["that is cut off", () => writeFileSync(file, readFileSync(file).subarray(0, -5))],
    [
      "that is a link",
      () => {
        copyFileSync(file, `${file}.other`);
        rmSync(file);
        symlinkSync(`${file}.other`, file);
      },
    ],
  ])("is not valid with the key of a file %s, which is replaced", async (_, damage) => {
    const signature = await (await UrlSigner.open(file, clock)).sign(target, clock.now() + hourMs);
    damage();
    const signer = await UrlSigner.open(file, clock);
    expect(signer.verify(target, signature)).toBeUndefined();
    await signer.sign(target, clock.now() + hourMs);
    expect(lstatSync(file).isFile()).toBe(true);
    expect(lstatSync(file).mode & 0o077).toBe(0);
  });

  it("stays valid if the group of a volume can read its key", async () => {
    const signature = await (await UrlSigner.open(file, clock)).sign(target, clock.now() + hourMs);
    chmodSync(file, 0o660);
    expect((await UrlSigner.open(file, clock)).verify(target, signature)).toBeDefined();
  });

  it("is created once its key can be written", async () => {
    const missing = join(dir, "missing");
    const signer = await UrlSigner.open(join(missing, "keys.json"), clock);
    await expect(signer.sign(target, clock.now() + hourMs)).rejects.toThrow("ENOENT");
    mkdirSync(missing);
    const signature = await signer.sign(target, clock.now() + hourMs);
    expect((await UrlSigner.open(join(missing, "keys.json"), clock)).verify(target, signature)).toBeDefined();
  });

  it("is valid until its expiry by a clock that was set ahead and back", async () => {
    const start = clock.now();
    let now = start + 30 * 24 * hourMs;
    const signer = await UrlSigner.open(file, { now: () => now });
    await signer.sign(target, now + hourMs);
    now = start;
    const signature = await signer.sign(target, now + hourMs);
    expect(signer.verify(target, signature)).toBe(Math.floor((start + hourMs) / 1000) * 1000);
    now = start + hourMs;
    expect(signer.verify(target, signature)).toBeUndefined();
  });
});
