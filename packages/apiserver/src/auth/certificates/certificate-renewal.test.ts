import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startCertificateRenewal } from "./certificate-renewal.ts";
import { ensurePki, type Pki } from "./pki.ts";

const day = 24 * 60 * 60 * 1000;
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-renewal-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

test("renews certificates before they expire, reports a failure and retries the next day, and stops when closed", async () => {
  const clock = createVirtualClock();
  const pki = await ensurePki(directory, clock.now());
  const used: Pki[] = [];
  const errors: unknown[] = [];
  let told: () => void = () => undefined;
  const nextTelling = (): Promise<void> =>
    new Promise((resolve) => {
      told = resolve;
    });
  /** A look ends with the timer of the next one. */
  const lookEnds = async (): Promise<void> => {
    while (clock.pendingTimers === 0) await new Promise((resolve) => setImmediate(resolve));
  };
  let isBroken = false;
  const renewal = startCertificateRenewal({
    directory,
    hosts: [],
    pki,
    clock,
    use(renewed) {
      if (isBroken) throw new Error("broken");
      used.push(renewed);
      told();
    },
    onError(error) {
      errors.push(error);
      told();
    },
  });
  await clock.advance(day);
  await lookEnds();
  expect(used).toEqual([]);

  isBroken = true;
  // A machine that slept wakes up shortly before the end.
  clock.jump(340 * day);
  const failure = nextTelling();
  await clock.advance(day);
  await failure;
  expect(errors).toHaveLength(1);
  await lookEnds();
  isBroken = false;
  const success = nextTelling();
  await clock.advance(day);
  await success;
  expect(used).toHaveLength(1);
  expect(used[0]?.server.certificate).not.toBe(pki.server.certificate);
  expect(used[0]?.authority).toEqual(pki.authority);
  await renewal.stop();
  expect(clock.pendingTimers).toBe(0);
  await clock.advance(400 * day);
  expect(used).toHaveLength(1);
});
