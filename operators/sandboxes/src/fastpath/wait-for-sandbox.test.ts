import { Code } from "@connectrpc/connect";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Cache, OnChange } from "@keelson/controller";
import { expect, it } from "vitest";
import type { Phase } from "../api/sandbox.ts";
import { waitForSandbox } from "./wait-for-sandbox.ts";

const key = { namespace: "default", name: "one" };

function waiting(phase: Phase | undefined, signal = new AbortController().signal) {
  const clock = createVirtualClock();
  const sandbox = phase === undefined ? undefined : { metadata: key, status: { phase, message: "because" } };
  const cache = { get: () => sandbox } as unknown as Cache;
  const onChange: OnChange = () => () => {};
  const outcome = waitForSandbox(key, () => false, { cache, onChange, clock, timeoutMs: 1000, signal });
  // Settles later than this function.
  outcome.catch(() => {});
  return { outcome, clock };
}

it.each([
  ["waits for a slot", "Pending", Code.ResourceExhausted],
  ["is unknown", undefined, Code.ResourceExhausted],
  ["starts", "Creating", Code.DeadlineExceeded],
] as const)("ends the wait for a sandbox that %s with its phase", async (_, phase, code) => {
  const { outcome, clock } = waiting(phase);
  await clock.advance(1000);
  await expect(outcome).rejects.toMatchObject({ code, rawMessage: expect.stringContaining(`is ${phase ?? "Pending"}`) });
});

it("ends with the caller's deadline whatever the phase", async () => {
  const { outcome } = waiting("Pending", AbortSignal.abort());
  await expect(outcome).rejects.toMatchObject({ code: Code.DeadlineExceeded });
});
