import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parseDockerCredentials, readDockerCredentials } from "./docker-credentials.ts";
import { architecture } from "./image-manifest.ts";
import { pullImage } from "./image-pull.ts";
import type { PullOptions, PullProgress } from "./image-pull.ts";
import { parseImageReference } from "./image-reference.ts";

const digestOf = (content: string): string => `sha256:${createHash("sha256").update(content).digest("hex")}`;
const descriptor = (content: string) => ({ mediaType: "x", digest: digestOf(content), size: content.length });
const layer = "layer".repeat(1000);
const config = JSON.stringify({ config: { Cmd: ["/bin/sh"] }, rootfs: { diff_ids: [digestOf(layer)] } });
const manifest = JSON.stringify({ config: descriptor(config), layers: [descriptor(layer)] });
const index = JSON.stringify({
  manifests: [
    { ...descriptor("other"), platform: { os: "linux", architecture: "other" } },
    { ...descriptor(manifest), platform: { os: "linux", architecture } },
  ],
});

let dir: string;
let server: Server;
let address: string;
/** What the registry serves, by path. */
let content: Map<string, string>;
let needsToken: boolean;
/** The credentials that the registry and its token endpoint require, if any. */
let account: { readonly kind: "bearer" | "basic"; readonly header: string } | undefined;
/** Responses to requests for the layer, one after another, instead of the default. */
let layerAnswers: ((request: IncomingMessage, response: ServerResponse) => void)[];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "keelson-pull-"));
  needsToken = false;
  account = undefined;
  layerAnswers = [];
  content = new Map([
    ["/v2/me/tool/manifests/1", index],
    [`/v2/me/tool/manifests/${digestOf(manifest)}`, manifest],
    [`/v2/me/tool/blobs/${digestOf(config)}`, config],
    [`/v2/me/tool/blobs/${digestOf(layer)}`, layer],
  ]);
  server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", address);
    if (url.pathname === "/token" && account !== undefined && request.headers.authorization !== account.header) {
      response.writeHead(401).end();
    } else if (account?.kind === "basic" && request.headers.authorization !== account.header) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
    } else if (url.pathname.endsWith(digestOf(layer)) && layerAnswers.length > 0) {
      layerAnswers.shift()?.(request, response);
    } else if (url.pathname === "/token") {
      response.end(JSON.stringify({ token: `for ${url.searchParams.get("scope")}` }));
    } else if (needsToken && request.headers.authorization !== "Bearer for repository:me/tool:pull") {
      const challenge = `Bearer realm="${address}/token",service="test",scope="repository:me/tool:pull"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
    } else {
      const found = content.get(url.pathname);
      response.writeHead(found === undefined ? 404 : 200).end(found);
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
  rmSync(dir, { recursive: true, force: true });
});

const pull = (
  onProgress: (progress: PullProgress) => void = () => {},
  maxBytes = 1_000_000,
  more: Pick<PullOptions, "credentials" | "pause"> = {},
) => pullImage(`${address.slice("http://".length)}/me/tool:1`, { temporary: dir, fetch, onProgress, maxBytes, ...more });

test.each([[false], [true]])("pulls an image for this architecture with progress; needs a token: %s", async (token) => {
  needsToken = token;
  const progress: PullProgress[] = [];
  const image = await pull((step) => progress.push(step));
  const totalBytes = layer.length + config.length;
  expect(progress.at(-1)).toEqual({ doneBytes: totalBytes, totalBytes });
  expect(image.config.command).toEqual(["/bin/sh"]);
  expect(image.manifest.layers.map((each) => readFileSync(image.blob(each), "utf8"))).toEqual([layer]);
  await image.close();
  expect(readdirSync(dir)).toEqual([]);
});

test.each([
  ["resumes an interrupted transfer", true],
  ["restarts an interrupted transfer if the registry does not support ranges", false],
])("%s", async (_, ranged) => {
  const asked: number[] = [];
  // Interrupted once everything sent has arrived, because data in flight may be lost with the connection.
  let unfinished: { readonly until: number; readonly response: ServerResponse } | undefined;
  layerAnswers = [1000, 3000, layer.length].map((until) => (request, response) => {
    asked.push(Number(/\d+/.exec(request.headers.range ?? "0")?.[0]));
    const from = ranged ? (asked.at(-1) ?? 0) : 0;
    response.writeHead(from > 0 ? 206 : 200).write(layer.slice(from, until));
    if (until === layer.length) response.end();
    else unfinished = { until, response };
  });
  const progress: PullProgress[] = [];
  const pauses: number[] = [];
  const onProgress = (step: PullProgress): void => {
    progress.push(step);
    if (step.doneBytes === config.length + (unfinished?.until ?? 0)) unfinished?.response.destroy();
  };
  const pause = (ms: number): Promise<void> => {
    pauses.push(ms);
    return Promise.resolve();
  };
  const image = await pull(onProgress, 1_000_000, { pause });
  expect(asked).toEqual([0, 1000, 3000]);
  expect(pauses).toHaveLength(2);
  expect(image.manifest.layers.map((each) => readFileSync(image.blob(each), "utf8"))).toEqual([layer]);
  expect(progress.at(-1)?.doneBytes).toBe(layer.length + config.length);
  await image.close();
});

test("downloads a damaged blob once more", async () => {
  layerAnswers = [(_, response) => void response.end(layer.toUpperCase())];
  await (await pull()).close();
  expect(layerAnswers).toEqual([]);
});

test("gives up on a transfer that keeps failing", async () => {
  let asked = 0;
  layerAnswers = Array.from({ length: 10 }, () => (_: IncomingMessage, response: ServerResponse) => {
    asked++;
    response.writeHead(200).flushHeaders();
    setImmediate(() => response.destroy());
  });
  await expect(pull()).rejects.toThrow(/damaged or truncated/);
  expect(asked).toBe(4);
  expect(readdirSync(dir)).toEqual([]);
});

test.each(["bearer", "basic"] as const)("sends the account of Docker's file to a registry that requires %s", async (kind) => {
  account = { kind, header: `Basic ${Buffer.from("me:p:w").toString("base64")}` };
  needsToken = kind === "bearer";
  await expect(pull()).rejects.toThrow(/denies anonymous access/);
  const host = address.slice("http://".length);
  const auths = { [`https://${host}/v1/`]: { auth: Buffer.from("me:p:w").toString("base64") } };
  await (await pull(undefined, undefined, { credentials: parseDockerCredentials(JSON.stringify({ auths })) })).close();
  const wrong = parseDockerCredentials(
    JSON.stringify({ auths: { [host]: { auth: Buffer.from("me:no").toString("base64") } } }),
  );
  await expect(pull(undefined, undefined, { credentials: wrong })).rejects.toThrow(/denies access to me/);
  expect(readdirSync(dir)).toEqual([]);
});

test("reads Docker's file with its name for Docker Hub, ignores a missing one, and rejects a damaged one", async () => {
  const of = parseDockerCredentials(
    JSON.stringify({ auths: { "https://index.docker.io/v1/": { auth: "bWU6cA==" }, "ghcr.io": {} } }),
  );
  expect([of("docker.io"), of("ghcr.io"), of("quay.io")]).toEqual([{ username: "me", password: "p" }, undefined, undefined]);
  expect((await readDockerCredentials(join(dir, "none")))("docker.io")).toBeUndefined();
  writeFileSync(join(dir, "config.json"), "{");
  await expect(readDockerCredentials(join(dir, "config.json"))).rejects.toThrow(/config\.json.*not valid JSON/);
});

test.each<[string, () => void, RegExp]>([
  ["has no such image", () => content.delete("/v2/me/tool/manifests/1"), /image not found/],
  ["lacks a layer", () => content.delete(`/v2/me/tool/blobs/${digestOf(layer)}`), /image not found/],
  ["sends another layer", () => content.set(`/v2/me/tool/blobs/${digestOf(layer)}`, layer.toUpperCase()), /damaged/],
  ["sends a layer without end", () => content.set(`/v2/me/tool/blobs/${digestOf(layer)}`, `${layer}more`), /longer than/],
  ["sends half a layer", () => content.set(`/v2/me/tool/blobs/${digestOf(layer)}`, "lay"), /damaged or truncated/],
  ["sends another manifest", () => content.set(`/v2/me/tool/manifests/${digestOf(manifest)}`, "{}"), /a manifest other than/],
  ["sends a page", () => content.set("/v2/me/tool/manifests/1", "<html>"), /not valid JSON/],
  ["is down", () => server.close(() => {}).closeAllConnections(), /is unreachable/],
])("reports a clear error and leaves nothing if the registry %s", async (_, change, reason) => {
  change();
  await expect(pull()).rejects.toThrow(reason);
  expect(readdirSync(dir)).toEqual([]);
});

test("does not download an image above the size limit", async () => {
  await expect(pull(() => {}, 100)).rejects.toMatchObject({ code: "TooLarge" });
  expect(readdirSync(dir)).toEqual([]);
});

test.each([
  ["alpine", "docker.io/library/alpine:latest", "https://registry-1.docker.io/v2/library/alpine"],
  ["ghcr.io/me/tool:2", "ghcr.io/me/tool:2", "https://ghcr.io/v2/me/tool"],
  ["localhost:5000/tool", "localhost:5000/tool:latest", "http://localhost:5000/v2/tool"],
  [`a/b@sha256:${"0".repeat(64)}`, `docker.io/a/b@sha256:${"0".repeat(64)}`, "https://registry-1.docker.io/v2/a/b"],
])("expands %s to %s", (text, name, url) => {
  expect(parseImageReference(text)).toMatchObject({ name, url });
});

test.each([[""], ["../x"], ["a b"], ["host.example/x/../y"], ["x:"], ["x@sha256:12"], ["evil.example@x/y:1"], ["UPPER"]])(
  "rejects %j as an image name",
  (text) => {
    expect(() => parseImageReference(text)).toThrow("not a valid image name");
  },
);
