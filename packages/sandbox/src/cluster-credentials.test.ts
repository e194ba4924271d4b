import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { type CredentialEnvironment, findClusterCredentials } from "./cluster-credentials.ts";

const unused = (): Promise<never> => Promise.reject(new Error("not used"));

/** Finds the credentials of a kubeconfig with this user. */
function credentialsOf(user: object, more: Partial<CredentialEnvironment> = {}) {
  return findClusterCredentials({
    env: {},
    readFile: unused,
    run: async (file, args) => {
      expect([file, args.slice(0, 2)]).toEqual(["kubectl", ["config", "view"]]);
      return JSON.stringify({ users: [{ name: "one", user }] });
    },
    now: () => 0,
    ...more,
  });
}

describe("credentials of the cluster", () => {
  it("are the service account's in a Pod, read before each call because the token is rotated", async () => {
    const tokens = ["first\n", "second\n"];
    const { token } = await findClusterCredentials({
      env: { KUBERNETES_SERVICE_HOST: "10.0.0.1" },
      readFile: async (path) => {
        expect(path).toBe("/var/run/secrets/kubernetes.io/serviceaccount/token");
        return tokens.shift() ?? "";
      },
      run: unused,
      now: () => 0,
    });
    expect([await token(), await token()]).toEqual(["first", "second"]);
  });

  it("are the kubeconfig's token, token file or client certificate", async () => {
    expect(await (await credentialsOf({ token: "abc" })).token()).toBe("abc");
    const fromFile = await credentialsOf({ tokenFile: "/t" }, { readFile: async (path) => `token of ${path}` });
    expect(await fromFile.token()).toBe("token of /t");
    const { token, ...certificate } = await credentialsOf({
      "client-certificate-data": btoa("C"),
      "client-key-data": btoa("K"),
    });
    expect([await token(), certificate]).toEqual([undefined, { cert: "C", key: "K" }]);
  });

  it("are requested from the kubeconfig's plugin again when they expire", async () => {
    let now = 0;
    let runs = 0;
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: "plugin",
      args: ["login"],
      env: [{ name: "A", value: "b" }],
    };
    const { token } = await credentialsOf(
      {},
      {
        now: () => now,
        run: async (file, args, env) => {
          if (file === "kubectl") return JSON.stringify({ users: [{ user: { exec } }] });
          expect([file, args, env.A]).toEqual(["plugin", ["login"], "b"]);
          runs += 1;
          const expirationTimestamp = new Date(runs * 60_000).toISOString();
          return JSON.stringify({ kind: "ExecCredential", status: { token: `token-${runs}`, expirationTimestamp } });
        },
      },
    );
    expect([await token(), await token()]).toEqual(["token-1", "token-1"]);
    now = 55_000;
    expect(await token()).toBe("token-2");
  });

  it("prefer the token file to the token while it can be read", async () => {
    const user = { tokenFile: "/t", token: "abc" };
    expect(await (await credentialsOf(user, { readFile: async () => "from file" })).token()).toBe("from file");
    expect(await (await credentialsOf(user)).token()).toBe("abc");
  });

  it.each([
    ["exits with a status", { code: 3 }, "failed with exit status 3"],
    ["does not exit in time", { code: null, killed: true, signal: "SIGKILL" }, "did not exit in time"],
    ["does not exist", { code: "ENOENT" }, "could not be run: ENOENT"],
    ["is killed", { code: null, killed: false, signal: "SIGSEGV" }, "was ended by SIGSEGV"],
  ])("name a plugin that %s, without its arguments and output", async (_, failure, reason) => {
    const exec = { command: "plugin", args: ["--secret", "hunter2"] };
    const error = await credentialsOf(
      {},
      {
        run: async (file, args) => {
          if (file === "kubectl") return JSON.stringify({ users: [{ user: { exec } }] });
          const message = `Command failed: ${file} ${args.join(" ")}`;
          throw Object.assign(new Error(message), { ...failure, cmd: message, stdout: "hunter2" });
        },
      },
    ).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "Unauthenticated", message: expect.stringContaining(`plugin ${reason}`) });
    expect(inspect(error, { depth: 9 })).not.toContain("hunter2");
  });

  it("run an expired plugin once for concurrent calls, and again after a failure", async () => {
    let runs = 0;
    const { token } = await credentialsOf(
      {},
      {
        now: () => 0,
        run: async (file) => {
          if (file === "kubectl") return JSON.stringify({ users: [{ user: { exec: { command: "plugin" } } }] });
          runs += 1;
          if (runs === 2) throw Object.assign(new Error("no"), { code: 1 });
          const expirationTimestamp = new Date(runs < 3 ? 0 : 60_000).toISOString();
          return JSON.stringify({ status: { token: `token-${runs}`, expirationTimestamp } });
        },
      },
    );
    const failed = await Promise.allSettled([token(), token()]);
    expect([failed.map(({ status }) => status), runs]).toEqual([["rejected", "rejected"], 2]);
    expect([await Promise.all([token(), token()]), runs]).toEqual([["token-3", "token-3"], 3]);
  });

  it.each([
    ["a user without credentials", {}, /neither a token nor a client certificate/],
    ["impersonation", { token: "abc", as: "root" }, /impersonation/],
    ["a plugin without a command", { exec: {} }, /exec.command is missing/],
  ])("reject %s with the reason", async (_, user, message) => {
    await expect(credentialsOf(user)).rejects.toMatchObject({
      code: "Unauthenticated",
      message: expect.stringMatching(message),
    });
  });

  it("name what to set if kubectl does not exist", async () => {
    const missing = credentialsOf({}, { run: () => Promise.reject(new Error("spawn kubectl ENOENT")) });
    await expect(missing).rejects.toMatchObject({
      code: "Unauthenticated",
      message: expect.stringMatching(/KEELSON_SANDBOX_TOKEN.*ENOENT/),
    });
  });
});
