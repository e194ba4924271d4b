import { randomBytes } from "node:crypto";
import { systemClock } from "@keelson/api-machinery/time";
import { describe, expect, it } from "vitest";
import type { BackupStore } from "./backup-store.ts";
import { runTransfer } from "./run-transfer.ts";

describe("a transfer of a backup that must be encrypted", () => {
  it("fails without a key, and stores nothing", async () => {
    const written: string[] = [];
    const store: BackupStore = {
      write: (path) => Promise.resolve(void written.push(path)),
      read: () => (async function* () {})(),
      remove: () => Promise.resolve(),
      list: () => Promise.resolve([]),
      removeFile: () => Promise.resolve(),
    };
    const connect = () => ({
      snapshot: () => (async function* () {})(),
      check: () => Promise.reject(new Error("not called")),
      load: () => Promise.reject(new Error("not called")),
      recover: () => Promise.reject(new Error("not called")),
      readLog: () => Promise.reject(new Error("not called")),
      confirmLog: () => Promise.reject(new Error("not called")),
      close: () => undefined,
    });
    const work = { kind: "backup", agent: "http://10.0.0.1:1", path: "a/1", mustEncrypt: true, description: {} } as const;
    const { signal } = new AbortController();
    const context = { store, connect, encryptionKey: undefined, randomBytes, clock: systemClock, signal, onMessage: () => {} };
    expect(await runTransfer(work, context)).toEqual({
      ok: false,
      error: "spec.encryption.keySecret: the key must not be empty",
      isFinal: true,
    });
    expect(written).toEqual([]);
  });
});
