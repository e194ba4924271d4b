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
  let notify: () => void = () => undefined;
  const nextReport = (): Promise<void> =>
    new Promise((resolve) => {
      notify = resolve;
    });
  /** A check ends by setting the timer of the next one. */
  const checkEnds = async (): Promise<void> => {
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
      notify();
    },
    onError(error) {
      errors.push(error);
      notify();
    },
  });
  await clock.advance(day);
  await checkEnds();
  expect(used).toEqual([]);

  isBroken = true;
  // A machine that slept wakes up shortly before the end.
  clock.jump(340 * day);
  const failure = nextReport();
  await clock.advance(day);
  await failure;
  expect(errors).toHaveLength(1);
  await checkEnds();
  isBroken = false;
  const success = nextReport();
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
