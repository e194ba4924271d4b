import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, it } from "vitest";
import { PostgresError } from "./postgres-client.ts";
import { SessionProbe } from "./session-probe.ts";

it("rejects once two new sessions in a row were not answered, and not if the server refuses them", async () => {
  const clock = createVirtualClock();
  let error: PostgresError | undefined = new PostgresError("Unreachable", "timeout");
  const probe = new SessionProbe(clock, () => (error === undefined ? Promise.resolve() : Promise.reject(error)));
  const outcome = async (): Promise<string> => {
    await clock.advance(2_000);
    await probe.require().catch(() => undefined);
    await clock.advance(1);
    return probe.require().then(
      () => "answered",
      ({ message }: Error) => message,
    );
  };
  expect(await outcome()).toBe("answered");
  expect(await outcome()).toBe("timeout");
  error = new PostgresError("Unreachable", "the database system is starting up", "57P03");
  expect(await outcome()).toBe("answered");
  error = new PostgresError("Unreachable", "timeout");
  expect(await outcome()).toBe("answered");
  expect(await outcome()).toBe("timeout");
  error = undefined;
  expect(await outcome()).toBe("answered");
});
