import { createVirtualClock } from "@keelson/api-machinery/testing";
import { mkdtemp, rm, writeFile, mkdir, chmod } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findConnection } from "./connect.ts";
import { connectionOf, inClusterConnection } from "./connection.ts";
import { inlineConnection } from "./inline-connection.ts";
import { loadKubeconfig } from "./kubeconfig.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "kubeconfig-"));
});
afterEach(() => rm(folder, { recursive: true }));

const pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
const base64 = Buffer.from(pem).toString("base64");

interface Parts {
  readonly cluster?: object | string;
  readonly user?: object | string;
  readonly context?: object;
  readonly current?: unknown;
}

async function write(
  name: string,
  { cluster = { server: "https://c" }, user = {}, context = {}, current = "x" }: Parts,
): Promise<string> {
  const file = join(folder, name);
  const config = {
    "current-context": current,
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u", ...context } }],
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}

async function connection(parts: Parts, env: Record<string, string> = { PATH: process.env["PATH"] ?? "" }) {
  const kubeconfig = await write("config", parts);
  return findConnection({ kubeconfig, clock: createVirtualClock(), env });
}

describe("kubeconfig", () => {
  test("reads the current context with inline certificates, tls name, proxy and impersonation", async () => {
    const { transport, namespace, context } = await connection({
      cluster: {
        server: "https://c:6443",
        "certificate-authority-data": base64,
        "tls-server-name": "k",
        "proxy-url": "http://p:1",
      },
      user: {
        "client-certificate-data": base64,
        "client-key-data": base64,
        as: "jane",
        "as-groups": ["g"],
        "as-user-extra": { k: ["v"] },
      },
      context: { namespace: "n" },
    });
    expect([context, namespace]).toEqual(["x", "n"]);
    expect(transport).toMatchObject({
      server: "https://c:6443",
      ca: pem,
      tlsServerName: "k",
      proxyUrl: "http://p:1",
      impersonate: { user: "jane", groups: ["g"], extra: { k: ["v"] } },
    });
    expect(await transport.credentials?.get()).toEqual({ clientCertificate: pem, clientKey: pem });
  });

  test("resolves relative paths against the directory of the file", async () => {
    await writeFile(join(folder, "ca.pem"), pem);
    const { transport } = await connection({ cluster: { server: "https://c", "certificate-authority": "ca.pem" } });
    expect(transport.ca).toBe(pem);
  });

  test("merges the files of KUBECONFIG: the first entry wins, missing files are skipped", async () => {
    const one = await write("one", { cluster: { server: "https://one" }, current: "" });
    const two = await write("two", { cluster: { server: "https://two" }, current: "x" });
    const { transport } = await findConnection({ env: { KUBECONFIG: `${join(folder, "absent")}:${one}:${two}` } });
    expect(transport.server).toBe("https://one");
  });

  test("reads a token file again after a minute, and keeps the last token while the file is missing", async () => {
    const clock = createVirtualClock();
    await writeFile(join(folder, "token"), "one\n");
    const config = await loadKubeconfig({
      kubeconfig: await write("config", { user: { tokenFile: "token", token: "inline" } }),
    });
    if (config === undefined) throw new Error("no config");
    const { credentials } = (await connectionOf(config, undefined, { clock })).transport;
    expect(await credentials?.get()).toEqual({ token: "one" });
    await writeFile(join(folder, "token"), "two\n");
    await clock.advance(59_999);
    expect(await credentials?.get()).toEqual({ token: "one" });
    await clock.advance(1);
    expect(await credentials?.get()).toEqual({ token: "two" });
    await rm(join(folder, "token"));
    await clock.advance(60_000);
    expect(await credentials?.get()).toEqual({ token: "two" });
  });

  test.each<[string, Parts, RegExp]>([
    ["no current context", { current: null }, /config: current-context is not set/],
    ["a context with an unknown cluster", { context: { cluster: "z" } }, /contexts\[name=x\]\.context\.cluster refers to "z"/],
    ["a cluster without server", { cluster: {} }, /clusters\[name=c\]\.cluster\.server is missing/],
    ["an invalid server URL", { cluster: { server: "c:6443 x" } }, /cluster\.server is "c:6443 x", which is not an https/],
    [
      "data that is not base64",
      { cluster: { server: "https://c", "certificate-authority-data": "%%" } },
      /certificate-authority-data is not base64/,
    ],
    [
      "a certificate without key",
      { user: { "client-certificate-data": base64 } },
      /users\[name=u\]\.user\.client-key is missing/,
    ],
    ["a missing file", { user: { "client-key": "k.pem" } }, /user\.client-key refers to a file that cannot be read/],
    ["a token that is a number", { user: { token: 7 } }, /users\[name=u\]\.user\.token is not a string/],
    ["a user that is a string", { user: "u" }, /users\[name=u\]\.user is not an object/],
    ["an auth-provider", { user: { "auth-provider": {} } }, /auth-provider is not supported .*use exec/],
    ["a socks proxy", { cluster: { server: "https://c", "proxy-url": "socks5://p" } }, /proxy-url is "socks5:\/\/p"/],
    ["groups without a user", { user: { "as-groups": ["g"] } }, /user\.as is required with/],
    ["an unknown exec version", { user: { exec: { command: "x", apiVersion: "v9" } } }, /user\.exec\.apiVersion is "v9"/],
  ])("reports file and field of %s", async (_, parts, message) => {
    await expect(connection(parts)).rejects.toThrow(message);
  });

  test("reports which files it looked for if there is none", async () => {
    await expect(findConnection({ env: { HOME: folder } })).rejects.toThrow(join(folder, ".kube", "config"));
    await expect(findConnection({ kubeconfig: join(folder, "absent"), env: {} })).rejects.toThrow(/absent: no such file/);
  });

  test("reports invalid YAML", async () => {
    await writeFile(join(folder, "config"), "a: [");
    await expect(findConnection({ kubeconfig: join(folder, "config"), env: {} })).rejects.toThrow(/config: not YAML/);
  });
});

describe("service account", () => {
  test("is used inside of a cluster, with precedence over the file in the home directory", async () => {
    await writeFile(join(folder, "ca.crt"), pem);
    await writeFile(join(folder, "token"), "t");
    await writeFile(join(folder, "namespace"), "ns\n");
    const env = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" };
    const found = await inClusterConnection({ env, clock: createVirtualClock() }, folder);
    expect(found).toMatchObject({ namespace: "ns", transport: { server: "https://[fd00::1]:443", ca: pem } });
    expect(await found?.transport.credentials?.get()).toEqual({ token: "t" });
  });

  test("is an error if its files are missing", async () => {
    const env = { KUBERNETES_SERVICE_HOST: "h", KUBERNETES_SERVICE_PORT: "1" };
    await expect(inClusterConnection({ env }, folder)).rejects.toThrow(/ca\.crt of the service account cannot be read/);
  });
});

describe("exec plugin", () => {
  async function plugin(script: string): Promise<string> {
    await mkdir(join(folder, "bin"), { recursive: true });
    const file = join(folder, "bin", "plugin");
    await writeFile(file, `#!/bin/sh\n${script}\n`);
    await chmod(file, 0o755);
    return "./bin/plugin";
  }
  const exec = (command: string, more: object = {}): Parts => ({
    user: { exec: { apiVersion: "client.authentication.k8s.io/v1", command, interactiveMode: "Never", ...more } },
  });

  test("runs without a shell, with its environment, once until its credentials expire or are rejected", async () => {
    const clock = createVirtualClock();
    const count = join(folder, "count");
    const expires = new Date(clock.now() + 60_000).toISOString();
    const command = await plugin(
      `echo run >> ${count}
      printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s %s %s","expirationTimestamp":"${expires}"}}' "$1" "$NAME" "$(wc -l < ${count})"`,
    );
    const kubeconfig = await write("config", exec(command, { args: ["$HOME;ls"], env: [{ name: "NAME", value: "v" }] }));
    const { transport } = await findConnection({ kubeconfig, clock, env: { PATH: process.env["PATH"] } });
    const both = await Promise.all([transport.credentials?.get(), transport.credentials?.get()]);
    expect(both.map((each) => each?.token?.replaceAll(/ +/g, " "))).toEqual(["$HOME;ls v 1", "$HOME;ls v 1"]);
    await clock.advance(49_999);
    expect((await transport.credentials?.get())?.token).toMatch(/ 1$/);
    await clock.advance(1);
    expect((await transport.credentials?.get())?.token).toMatch(/ 2$/);
    transport.credentials?.invalidate?.();
    expect((await transport.credentials?.get())?.token).toMatch(/ 3$/);
  });

  test.each<[string, string, RegExp]>([
    ["fails", "exit 3", /user\.exec: .*plugin exited with status 3/],
    ["prints invalid JSON", "echo hello", /did not print JSON/],
    ["prints another version", `echo '{"kind":"ExecCredential","apiVersion":"v0"}'`, /printed apiVersion "v0"/],
    [
      "gives nothing",
      `echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{}}'`,
      /printed neither/,
    ],
  ])("reports a plugin that %s", async (_, script, message) => {
    const { transport } = await connection(exec(await plugin(script)));
    await expect(transport.credentials?.get()).rejects.toThrow(message);
  });

  test("reports the install hint if the plugin is missing", async () => {
    const { transport } = await connection(exec("no-such-program-here", { installHint: "get it at example.org" }));
    await expect(transport.credentials?.get()).rejects.toThrow(/could not be started[^]*get it at example\.org/);
  });
});

describe("a kubeconfig of an object", () => {
  const text = (cluster: object, user: object) =>
    JSON.stringify({
      "current-context": "x",
      clusters: [{ name: "c", cluster: { server: "https://c", ...cluster } }],
      users: [{ name: "u", user }],
      contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    });
  const inline = (cluster: object, user: object) => inlineConnection(text(cluster, user), { source: "Secret far" });

  test("has its certificates and credentials inline", async () => {
    const { transport } = await inline({ "certificate-authority-data": base64 }, { token: "t" });
    expect(transport).toMatchObject({ server: "https://c", ca: pem });
    expect(await transport.credentials?.get()).toEqual({ token: "t" });
  });

  test.each([
    [
      "a file of certificates",
      { "certificate-authority": "/etc/ca.pem" },
      {},
      "clusters[name=c].cluster.certificate-authority",
    ],
    ["a program", {}, { exec: { command: "touch" } }, "users[name=u].user.exec"],
    ["a file with a token", {}, { tokenFile: "/var/run/token" }, "users[name=u].user.tokenFile"],
    ["a file with a key", {}, { "client-certificate-data": base64, "client-key": "/key" }, "users[name=u].user.client-key"],
  ])("must not name %s", async (_, cluster, user, field) => {
    await expect(inline(cluster, user)).rejects.toThrow(`kubeconfig Secret far: ${field} must not be set`);
  });

  test("has a limited length", async () => {
    await expect(inline({}, { token: "t".repeat(70_000) })).rejects.toThrow(/must have at most 65536 characters, has 70\d+/);
  });
});
