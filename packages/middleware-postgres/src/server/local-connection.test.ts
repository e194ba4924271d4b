import { afterEach, expect, it, vi } from "vitest";
import { LocalConnection, PostgresConnection, PostgresError } from "./postgres-client.ts";

const address = { host: "/run", port: 5_432, password: "" };

/** A connection whose statements end when the test ends them. */
class FakeConnection {
  hasFailed = false;
  runs = 0;
  isClosed = false;
  #end: { resolve(rows: readonly object[]): void; reject(error: unknown): void } | undefined;

  get isBusy(): boolean {
    return this.#end !== undefined;
  }
  run(): Promise<readonly object[]> {
    this.runs++;
    return new Promise((resolve, reject) => {
      this.#end = { resolve, reject };
    });
  }
  answer(): void {
    this.#end?.resolve([{ done: "true" }]);
  }
  fail(): void {
    this.hasFailed = true;
    this.#end?.reject(new PostgresError("Unreachable", "Query read timeout"));
  }
  close(): Promise<void> {
    this.isClosed = true;
    this.#end?.reject(new PostgresError("Unreachable", "Connection terminated"));
    return Promise.resolve();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const opened: FakeConnection[] = [];
afterEach(() => {
  vi.restoreAllMocks();
  opened.length = 0;
});
function fakeConnections(): void {
  vi.spyOn(PostgresConnection, "open").mockImplementation(() => {
    const connection = new FakeConnection();
    opened.push(connection);
    return Promise.resolve(connection as unknown as PostgresConnection);
  });
}

it("completes a long statement although a status query times out in the meantime", async () => {
  fakeConnections();
  const connection = new LocalConnection(address);
  const promotion = connection.long("SELECT pg_promote()", 25_000);
  const status = connection.one("SELECT 1");
  await vi.waitFor(() => expect(opened.map(({ isBusy }) => isBusy)).toEqual([true, true]));
  opened[1]?.fail();
  await expect(status).rejects.toThrow("timeout");
  await connection.close();
  opened[0]?.answer();
  await expect(promotion).resolves.toEqual({ done: "true" });
  expect(opened[0]?.isClosed).toBe(true);
});

it("opens one connection for statements that arrive together", async () => {
  fakeConnections();
  const connection = new LocalConnection(address);
  void connection.one("SELECT 1").catch(() => undefined);
  void connection.one("SELECT 2").catch(() => undefined);
  await vi.waitFor(() => expect(opened[0]?.runs).toBe(2));
  await connection.close();
  expect(opened).toHaveLength(1);
  expect(opened[0]?.isClosed).toBe(true);
});
