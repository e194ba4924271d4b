import { describe, expect, it } from "vitest";
import type { UserState } from "./credential-state.ts";
import { publications, type StoredPassword } from "./publication.ts";

const user = (...names: readonly [string, string?]): UserState => {
  const [current, next] = names;
  const logins = {
    h1: { name: current, verifier: "v1" },
    ...(next === undefined ? {} : { h2: { name: next, verifier: "v2" } }),
  };
  return { rules: [], current: "h1", ...(next === undefined ? {} : { next: "h2" }), previous: [], logins };
};
const found = (secret: Partial<StoredPassword>, state: UserState, name = "a") =>
  publications({ secrets: new Map([[name, { password: "p", ...secret }]]), defaultLogin: "postgres" }, { [name]: state });

describe("the Secret of a user", () => {
  it("gets its login once, and its next password with the other login", () => {
    expect(found({}, user("a"))).toEqual({ ready: [{ user: "a", login: "a" }], refused: {} });
    expect(found({ login: "a" }, user("a"))).toEqual({ ready: [], refused: {} });
    expect(found({ login: "a", isProvided: true }, user("a", "a_b"))).toEqual({
      ...{ ready: [{ user: "a", login: "a_b" }], refused: {} },
    });
  });

  it("is left alone if the user provides it and it names the login of another, which would write it too", () => {
    const secret = { password: "p", isProvided: true };
    const users = { a: user("a"), b: user("b") };
    const secrets = new Map([
      ["a", { ...secret, login: "a" }],
      ["b", { ...secret, login: "a" }],
    ]);
    expect(publications({ secrets }, users)).toEqual({
      ready: [],
      refused: { b: expect.stringContaining('username "a" of its Secret must be b or b_b, or missing') },
    });
    expect(found({ ...secret, login: "alice" }, user("a", "a_b")).ready).toEqual([]);
  });

  it("gets its login again if the operator has created it", () => {
    expect(found({ login: "edited" }, user("postgres"), "default").ready).toEqual([{ user: "default", login: "postgres" }]);
  });

  it("is left alone if it is immutable, which is a problem only if clients need another password or login", () => {
    const refused = { a: expect.stringContaining("its Secret is immutable") };
    expect(found({ isImmutable: true }, user("a"))).toEqual({ ready: [], refused: {} });
    expect(found({ isImmutable: true }, user("a_b"))).toEqual({ ready: [], refused });
    expect(found({ isImmutable: true }, user("a", "a_b"))).toEqual({ ready: [], refused });
  });

  it("does not delay those of other users", () => {
    const secrets = new Map<string, StoredPassword>([
      ["a", { password: "p", isImmutable: true }],
      ["b", { password: "p" }],
    ]);
    const { ready, refused } = publications({ secrets }, { a: user("a", "a_b"), b: user("b", "b_b") });
    expect([ready, Object.keys(refused)]).toEqual([[{ user: "b", login: "b_b" }], ["a"]]);
  });
});
