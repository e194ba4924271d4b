import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Reply } from "../resp-client.ts";
import { RespError } from "../resp-client.ts";
import { RedisCredentials } from "./redis-credentials.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "keelson-credentials-"));
});
afterEach(() => rm(folder, { recursive: true }));

const hashOf = (password: string): string => createHash("sha256").update(password).digest("hex");
const user = (name: string, ...rules: readonly string[]) => ({ name, rules, passwordHashes: [hashOf(name)] });

/** The part of a server that has users. It rejects the rule `+@nonsense`, and what a test adds. */
class Server {
  readonly users = new Map<string, readonly string[]>();
  isIsolated = true;
  password = "";
  fails = (_words: readonly string[]): boolean => false;

  run(...words: readonly string[]): Promise<Reply> {
    const [command, action, name = "", ...rules] = words;
    if (this.fails(words)) return Promise.reject(new RespError("Unreachable", "connection closed"));
    if (action === "SETUSER") {
      if (rules.includes("+@nonsense")) return Promise.reject(new RespError("Refused", "ERR unknown category"));
      this.users.set(name, rules);
    }
    if (action === "DELUSER") for (const each of words.slice(2)) this.users.delete(each);
    return Promise.resolve(command === "ACL" && action === "USERS" ? [...this.users.keys()] : "OK");
  }

  async start(): Promise<RedisCredentials> {
    const file = join(folder, "credentials.json");
    const isIsolated = (): boolean => this.isIsolated;
    const credentials = new RedisCredentials({ connection: this, file, password: "first", isIsolated, log: silentLogger });
    await credentials.load();
    return credentials;
  }
}

describe("the users of a server", () => {
  it("are validated while it is isolated, without letting them in", async () => {
    const server = new Server();
    const credentials = await server.start();
    const broken = { sequence: 1, password: "first", users: [user("default"), user("reader"), user("broken", "+@nonsense")] };
    expect(await credentials.set(broken)).toEqual({ ok: false, error: "user broken: ERR unknown category" });
    expect(credentials.sequence).toBe(0);
    expect([...server.users.keys()]).toEqual([]);
  });

  it("are replaced by those of another id, whatever its sequence", async () => {
    const server = new Server();
    server.isIsolated = false;
    const credentials = await server.start();
    await credentials.set({ id: "a", sequence: 7, password: "first", users: [user("default"), user("old")] });
    server.users.set("unknown", []);
    expect(await credentials.set({ id: "a", sequence: 6, password: "first", users: [user("default")] })).toMatchObject({
      ok: false,
    });
    expect(await credentials.set({ id: "b", sequence: 1, password: "other", users: [user("default")] })).toEqual({ ok: true });
    expect([...server.users.keys()]).toEqual(["default"]);
    expect([credentials.id, credentials.sequence]).toEqual(["b", 1]);
    expect((await server.start()).id).toBe("b");
  });

  it("do not keep it isolated if its program rejects one of them", async () => {
    const server = new Server();
    const users = [user("default"), user("newer", "+@later"), user("reader", "+@read")];
    await (await server.start()).set({ sequence: 1, password: "first", users });
    server.run = async (...words) => {
      if (words.includes("+@later")) throw new RespError("Refused", "ERR unknown category");
      return Server.prototype.run.apply(server, [...words]);
    };
    await (await server.start()).admit(() => (server.isIsolated = false));
    expect(server.isIsolated).toBe(false);
    expect([...server.users.keys()]).toEqual(["default", "reader"]);
  });

  it("count as applied only after the whole change", async () => {
    const server = new Server();
    server.isIsolated = false;
    const credentials = await server.start();
    const next = { sequence: 1, password: "next", users: [user("default")] };
    server.fails = ([command]) => command === "CONFIG";
    await expect(credentials.set(next)).rejects.toThrow("connection closed");
    expect([credentials.sequence, (await server.start()).sequence]).toEqual([0, 0]);
    server.fails = () => false;
    expect(await credentials.set(next)).toEqual({ ok: true });
    expect([credentials.sequence, (await server.start()).sequence, server.password]).toEqual([1, 1, "next"]);
  });
});
