import { afterAll, afterEach, beforeEach } from "vitest";
import { PostgresApp } from "./postgres-app.ts";

/** Shares an App among the tests of a file. A test that fails leaves the next one a new App. */
export function shareApp(): () => PostgresApp {
  let current: PostgresApp | undefined;
  const end = async (): Promise<void> => {
    const ended = current;
    current = undefined;
    await ended?.[Symbol.asyncDispose]();
  };
  beforeEach(async () => {
    current ??= await PostgresApp.start();
  });
  afterEach(async ({ task }) => {
    await current?.stopWriter();
    if (task.result?.state === "fail") await end();
  });
  afterAll(end);
  return () => {
    if (current === undefined) throw new Error("shareApp: no test is running");
    return current;
  };
}
