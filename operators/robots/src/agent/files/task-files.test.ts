import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { tarArchive, type TarEntry } from "@keelson/execution/testing";
import { Parser } from "tar";
import { type ArtifactPolicy, defaultRobotPolicy } from "../policy/robot-policy.ts";
import type { TaskOrder } from "../tasks/task-order.ts";
import type { Artifact } from "./artifact.ts";
import { ArtifactCache } from "./artifact-cache.ts";
import { TaskFiles } from "./task-files.ts";
import { TaskFolder } from "./task-folder.ts";
import type { TaskTemplate } from "./task-template.ts";
import { type ZipEntry, zipArchive } from "./testing/zip-archive.ts";

let base: string;
let dir: string;
let server: Server;
let origin: string;
const clock = createVirtualClock(0);
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let requests: IncomingMessage[];
let openResponses: number;

beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-artifacts-")));
  dir = join(base, "task");
  mkdirSync(dir);
  requests = [];
  openResponses = 0;
  server = createServer((request, response) => {
    requests.push(request);
    openResponses++;
    response.once("close", () => openResponses--);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(base, { recursive: true, force: true });
});

const sha256 = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex");

let labels: Readonly<Record<string, string>> = {};
function files(policy: Partial<ArtifactPolicy> = {}): TaskFiles {
  const whole = { ...defaultRobotPolicy.artifacts, ...policy };
  const cache = new ArtifactCache({ dir: join(base, "cache"), policy: whole, clock, random: () => 0 });
  return new TaskFiles({ cache, policy: whole, labels: () => labels, deviceInfo: () => ({}) });
}

const order = (more: Partial<TaskOrder>): TaskOrder => ({ command: ["true"], env: {}, ...more });
const target = () => ({ dir, owner: undefined });
const never = new AbortController().signal;
/** A time limit that is not reached although virtual time passes while a busy machine reads and writes files. */
const patient = { timeoutMs: 24 * 60 * 60 * 1000 };
const fetchOne = (artifact: Artifact, policy: Partial<ArtifactPolicy> = {}, signal = never): Promise<void> =>
  files(policy).fetch(order({ artifacts: [artifact] }), target(), signal);
const serve = (content: string | Uint8Array) => {
  answer = (_, response) => response.end(content);
};
const read = (path: string): string => readFileSync(join(dir, path), "utf8");
const cached = (): string[] => readdirSync(join(base, "cache", "sha256"));

/** Lets the virtual time pass until a promise settles; unless `isWhileOpen` is set, only while no response is being sent. */
async function passTime(
  promise: Promise<void>,
  { stepMs, isWhileOpen }: { stepMs: number; isWhileOpen: boolean },
): Promise<void> {
  let isSettled = false;
  const settle = (): void => {
    isSettled = true;
  };
  promise.then(settle, settle);
  while (!isSettled) {
    if (isWhileOpen || openResponses === 0) await clock.advance(stepMs);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await promise;
}

/** Serves ranges, and closes each connection after `bytes` bytes. */
function serveInParts(content: Buffer, bytes: number): void {
  answer = ({ headers }, response) => {
    const start = Number(/^bytes=(\d+)-$/.exec(headers.range ?? "")?.[1] ?? 0);
    const range = start === 0 ? {} : { "content-range": `bytes ${start}-${content.length - 1}/${content.length}` };
    response.writeHead(start === 0 ? 200 : 206, { "content-length": content.length - start, ...range });
    // A client that reads late loses what it has not read when the connection is destroyed.
    response.write(content.subarray(start, start + bytes), () => setTimeout(() => response.destroy(), 100));
    if (start + bytes >= content.length) response.end();
  };
}

test("a file is fetched once, verified, and then comes from the cache", async () => {
  serve("map");
  const artifact = { url: `${origin}/map`, sha256: sha256("map"), path: "local/maps/map" };
  await fetchOne(artifact);
  await fetchOne({ ...artifact, path: "other" });
  expect([read("local/maps/map"), read("other")]).toEqual(["map", "map"]);
  expect(statSync(join(dir, "other")).mode & 0o777).toBe(0o755);
  expect(requests).toHaveLength(1);
});

test("two tasks that need the same file at the same time download it once", async () => {
  serve("map");
  const artifact = { url: `${origin}/map`, sha256: sha256("map"), path: "a" };
  const shared = files();
  const fetch = (path: string) => shared.fetch(order({ artifacts: [{ ...artifact, path }] }), target(), never);
  await Promise.all([fetch("a"), fetch("b"), fetch("c")]);
  expect([read("a"), read("b"), read("c")]).toEqual(["map", "map", "map"]);
  expect(requests).toHaveLength(1);
});

test("a file that was changed in the cache is downloaded again", async () => {
  serve("map");
  const artifact = { url: `${origin}/map`, sha256: sha256("map"), path: "a" };
  await fetchOne(artifact);
  writeFileSync(join(base, "cache", "sha256", artifact.sha256), "forged");
  await fetchOne(artifact);
  expect(read("a")).toBe("map");
  expect(requests).toHaveLength(2);
});

test("a file with another digest is rejected and leaves nothing", async () => {
  serve("forged");
  const artifact = { url: `${origin}/map?token=secret`, sha256: sha256("map"), path: "a" };
  const message = `spec.artifacts[0]: ${origin}/map: its SHA-256 digest is ${sha256("forged")}, expected ${sha256("map")}`;
  await expect(fetchOne(artifact)).rejects.toMatchObject({ code: "ArtifactFailed", message });
  expect(existsSync(join(dir, "a"))).toBe(false);
  expect(cached()).toEqual([]);
});

test("an interrupted download continues where it stopped", async () => {
  const content = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251));
  serveInParts(content, 100_000);
  const done = fetchOne({ url: `${origin}/x`, sha256: sha256(content), path: "x" }, patient);
  await passTime(done, { stepMs: 500, isWhileOpen: false });
  expect(readFileSync(join(dir, "x")).equals(content)).toBe(true);
  const starts = requests.map(({ headers }) => Number(/^bytes=(\d+)-$/.exec(headers.range ?? "bytes=0-")?.[1]));
  // On a busy machine an attempt may time out before it has received anything; the next one starts from the same position.
  expect(new Set(starts).size).toBeGreaterThan(2);
  expect(starts).toEqual(starts.toSorted((a, b) => a - b));
});

test("another agent continues a download", async () => {
  const content = Buffer.from("0123456789");
  const cancel = new AbortController();
  answer = (_, response) => {
    response.writeHead(200, { "content-length": 10 });
    response.write(content.subarray(0, 4));
  };
  const artifact = { url: `${origin}/x`, sha256: sha256(content), path: "x" };
  const first = fetchOne(artifact, {}, cancel.signal);
  const partial = join(base, "cache", "partial");
  const received = (): number =>
    (existsSync(partial) ? readdirSync(partial).map((name) => statSync(join(partial, name)).size)[0] : 0) ?? 0;
  while (received() < 4) await new Promise((resolve) => setImmediate(resolve));
  cancel.abort(new Error("stopped"));
  await expect(first).rejects.toThrow("stopped");
  serveInParts(content, 10);
  await fetchOne(artifact);
  expect(read("x")).toBe("0123456789");
  expect(requests.at(-1)?.headers.range).toBe("bytes=4-");
});

test("a download starts again if what was received belongs to another file", async () => {
  const partial = join(base, "cache", "partial");
  const artifact = { url: `${origin}/x`, sha256: sha256("new file"), path: "x" };
  mkdirSync(partial, { recursive: true });
  writeFileSync(join(partial, createHash("sha256").update(`${artifact.sha256} ${artifact.url}`).digest("hex")), "old ");
  serveInParts(Buffer.from("new file"), 8);
  await fetchOne(artifact);
  expect(read("x")).toBe("new file");
});

test.each([404, 403, 400])("the answer %i fails without another try", async (status) => {
  answer = (_, response) => response.writeHead(status).end();
  const fetched = fetchOne({ url: `${origin}/x`, sha256: sha256(""), path: "x" });
  await expect(fetched).rejects.toThrow(`spec.artifacts[0]: ${origin}/x: the server answered ${status}`);
  expect(requests).toHaveLength(1);
});

test("an overloaded server is tried five times", async () => {
  answer = (_, response) => response.writeHead(503).end();
  const fetched = fetchOne({ url: `${origin}/x`, sha256: sha256(""), path: "x" }, patient);
  const failure = { code: "ArtifactFailed", message: expect.stringContaining("the server answered 503") };
  await expect(passTime(fetched, { stepMs: 500, isWhileOpen: false })).rejects.toMatchObject(failure);
  expect(requests).toHaveLength(5);
});

test("the download from a server that stops sending fails", async () => {
  answer = (_, response) => {
    response.writeHead(200, { "content-length": 10 });
    response.write("x");
  };
  const fetched = fetchOne({ url: `${origin}/x`, path: "x" }, { timeoutMs: 1e9 });
  await expect(passTime(fetched, { stepMs: 10_000, isWhileOpen: true })).rejects.toThrow("no data for 30 seconds");
});

test("a download that takes longer than the policy allows fails", async () => {
  answer = (_, response) => {
    response.writeHead(200);
    const drip = (): void => void response.write("x", () => setImmediate(drip));
    drip();
  };
  const fetched = fetchOne({ url: `${origin}/x`, path: "x" }, { timeoutMs: 60_000 });
  await expect(passTime(fetched, { stepMs: 500, isWhileOpen: true })).rejects.toThrow("not downloaded within the time");
});

test.each([
  ["announced", (response: ServerResponse) => response.writeHead(200, { "content-length": 11 }).end("12345678901")],
  [
    "not announced",
    (response: ServerResponse) => response.writeHead(200, { "transfer-encoding": "chunked" }).end("12345678901"),
  ],
])("a file over the limit is rejected, its size %s", async (_, respond) => {
  answer = (_request, response) => respond(response);
  const fetched = fetchOne({ url: `${origin}/x`, sha256: sha256("12345678901"), path: "x" }, { maxBytes: 10 });
  await expect(fetched).rejects.toThrow("larger than the robot's policy allows (10 bytes)");
  expect(readdirSync(join(base, "cache", "partial"))).toEqual([]);
});

test("redirects are followed only to where the policy allows", async () => {
  answer = ({ url }, response) => {
    if (url === "/x") response.writeHead(302, { location: "/files/x" }).end();
    else if (url === "/evil") response.writeHead(302, { location: "http://127.0.0.2:1/x?token=1" }).end();
    else if (url === "/local") response.writeHead(302, { location: "file:///etc/passwd" }).end();
    else if (url === "/loop") response.writeHead(302, { location: "/loop" }).end();
    else response.end("x");
  };
  const policy = { sources: [`${origin}/`] };
  await fetchOne({ url: `${origin}/x`, sha256: sha256("x"), path: "x" }, policy);
  expect(read("x")).toBe("x");
  for (const [path, message] of [
    ["evil", `${origin}/evil: redirects to http://127.0.0.2:1/x, which is not allowed`],
    ["local", "which is not allowed"],
    ["loop", "more than 5 redirects"],
  ]) {
    await expect(fetchOne({ url: `${origin}/${path}`, sha256: sha256("y"), path: "y" }, policy)).rejects.toThrow(message);
  }
});

test("local files are copied from allowed directories only, even through links", async () => {
  const allowed = join(base, "allowed");
  mkdirSync(allowed);
  writeFileSync(join(allowed, "map"), "map");
  symlinkSync("map", join(allowed, "link"));
  symlinkSync("/etc/passwd", join(allowed, "escape"));
  const policy = { sources: [`file://${allowed}/`], requireChecksum: false };
  await fetchOne({ url: `file://${allowed}/link`, path: "a" }, policy);
  expect(read("a")).toBe("map");
  const escape = fetchOne({ url: `file://${allowed}/escape`, path: "b" }, policy);
  await expect(escape).rejects.toMatchObject({ code: "ArtifactForbidden", message: expect.stringContaining("/etc/passwd") });
  await expect(fetchOne({ url: `file://${allowed}`, path: "b" }, policy)).rejects.toMatchObject({ code: "ArtifactFailed" });
});

test("the cache drops the files that were used longest ago", async () => {
  answer = ({ url = "" }, response) => response.end(url.repeat(100));
  const fetch = (name: string) =>
    fetchOne({ url: `${origin}/${name}`, sha256: sha256(`/${name}`.repeat(100)), path: name }, { cacheBytes: 450 });
  for (const name of ["a", "b", "a", "c"]) {
    await clock.advance(1_000);
    await fetch(name);
  }
  expect(cached().sort()).toEqual(["a", "c"].map((name) => sha256(`/${name}`.repeat(100))).sort());
});

test("links in the task's directory lead nowhere outside", async () => {
  serve("x");
  const outside = join(base, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "victim"), "unharmed");
  symlinkSync(outside, join(dir, "escape"));
  symlinkSync(join(outside, "victim"), join(dir, "file"));
  const artifact = { url: `${origin}/x`, sha256: sha256("x") };
  await expect(fetchOne({ ...artifact, path: "escape/victim" })).rejects.toThrow("spec.artifacts[0]");
  await fetchOne({ ...artifact, path: "file" });
  expect(lstatSync(join(dir, "file")).isFile()).toBe(true);
  expect([readdirSync(outside), readFileSync(join(outside, "victim"), "utf8")]).toEqual([["victim"], "unharmed"]);
});

const tar = (...entries: TarEntry[]) => [`${entries.length}.tar.gz`, gzipSync(tarArchive(...entries)), "tar"] as const;

test.each([
  tar({ path: "sub/", type: "Directory" }, { path: "sub/run", content: "go", mode: 0o4755 }, { path: "./top", content: "t" }),
  [
    "x.zip",
    zipArchive({ name: "sub/" }, { name: "sub/run", content: "go", mode: 0o104755 }, { name: "top", content: "t" }),
    "zip",
  ] as const,
])("the archive %s is unpacked without set-uid bits", async (name, content, archive) => {
  serve(content);
  await fetchOne({ url: `${origin}/${name}`, sha256: sha256(content), path: "local", archive });
  expect([read("local/sub/run"), read("local/top")]).toEqual(["go", "t"]);
  expect(statSync(join(dir, "local/sub/run")).mode & 0o7777).toBe(0o755);
});

test("an archive that decompresses to empty blocks does not stop the robot", async () => {
  const archive = tarArchive({ path: "a", content: "x" });
  // 8 MB of what may follow the end of an archive.
  const content = gzipSync(Buffer.concat([archive, Buffer.alloc(8 * 2 ** 20)]), { level: 1 });
  serve(content);
  const parsed = vi.spyOn(Parser.prototype, "write");
  try {
    await fetchOne({ url: `${origin}/x`, sha256: sha256(content), path: "local", archive: "tar" });
    expect(read("local/a")).toBe("x");
    // The parser gets small parts, and none after the end.
    const sizes = parsed.mock.calls.map(([part]) => Buffer.byteLength(part as string | Buffer));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(64 * 1024);
    expect(sizes.length).toBeLessThanOrEqual(2);
  } finally {
    parsed.mockRestore();
  }
});

const zip = (what: string, ...entries: ZipEntry[]) => [what, zipArchive(...entries), "zip"] as const;
const bad = (what: string, ...entries: TarEntry[]) => [what, tarArchive(...entries), "tar"] as const;

test.each([
  bad("a path that leaves its directory", { path: "../../escape", content: "x" }),
  bad("a path that leaves its directory", { path: "/etc/escape", content: "x" }),
  bad("a path that leaves its directory", { path: "a/../../x", content: "x" }),
  bad("a link", { path: "link", type: "SymbolicLink", linkpath: "/etc" }, { path: "link/x", content: "x" }),
  bad("a link", { path: "hard", type: "Link", linkpath: "/etc/passwd" }),
  bad("an entry of type CharacterDevice", { path: "dev", type: "CharacterDevice" }),
  bad("larger than the robot's policy allows (1000 bytes)", { path: "big", content: "x".repeat(1001) }),
  ["could not unpack the archive", tarArchive({ path: "big", content: "x".repeat(900) }).subarray(0, 700), "tar"] as const,
  ["could not unpack the archive", Buffer.from("not a tar file".repeat(100)), "tar"] as const,
  ["compressed more than once", gzipSync(gzipSync(tarArchive({ path: "a", content: "x" }))), "tar"] as const,
  ["could not unpack the archive", gzipSync(tarArchive({ path: "a", content: "x" })).subarray(0, 60), "tar"] as const,
  zip("invalid relative path", { name: "../escape", content: "x" }),
  zip("absolute path", { name: "/etc/escape", content: "x" }),
  zip("a link or special file", { name: "link", content: "/etc", mode: 0o120777 }),
  zip("larger than the robot's policy allows (1000 bytes)", { name: "big", content: "x".repeat(1001) }),
  zip("could not unpack the archive", { name: "bomb", content: "x".repeat(2000), claimedSize: 10 }),
  ["could not unpack the archive", Buffer.from("not a zip file".repeat(100)), "zip"] as const,
])("an archive is rejected: %s", async (message, content, archive) => {
  serve(content);
  const artifact = { url: `${origin}/x`, sha256: sha256(content), path: "local", archive };
  await expect(fetchOne(artifact, { maxUnpackedBytes: 1000 })).rejects.toThrow(message);
  expect(readdirSync(base).sort()).toEqual(["cache", "task"]);
});

test("an archive that is unpacked to a full disk leaves no file open", async () => {
  const content = tarArchive({ path: "a", content: "x".repeat(500_000) });
  serve(content);
  const closed: string[] = [];
  const full = vi.spyOn(TaskFolder.prototype, "createFile").mockImplementation(() => {
    closed.push("open");
    return {
      write() {
        throw new Error("ENOSPC: no space left on device");
      },
      [Symbol.dispose]: () => void closed.push("closed"),
    };
  });
  try {
    const artifact = { url: `${origin}/x`, sha256: sha256(content), path: "local", archive: "tar" } as const;
    await expect(fetchOne(artifact)).rejects.toThrow("no space left on device");
  } finally {
    full.mockRestore();
  }
  expect(closed.slice(0, 2)).toEqual(["open", "closed"]);
});

const template = (text: string, more: Partial<TaskTemplate> = {}): TaskTemplate => ({
  ...{ from: { text }, path: "conf/app.ini", left: "{{", right: "}}", mode: 0o640, onChange: "restart", ...more },
});

test("templates are rendered with variables, metadata and labels, and again when those change", () => {
  labels = { bay: "7" };
  const text = '{{ env "MODE" }} {{ meta "site" }} {{ label "bay" }}';
  const task = order({
    env: { MODE: "fast" },
    meta: { site: "b1" },
    templates: [template(text), template("fixed", { path: "b" })],
  });
  const { digests } = files().render(task, target());
  expect([read("conf/app.ini"), read("b")]).toEqual(["fast b1 7", "fixed"]);
  expect(statSync(join(dir, "conf/app.ini")).mode & 0o777).toBe(0o640);
  expect(files().render(task, target(), digests)).toEqual({ digests, changed: [] });
  labels = { bay: "8" };
  expect(files().render(task, target(), digests).changed).toEqual([task.templates?.[0]]);
  expect(read("conf/app.ini")).toBe("fast b1 8");
});

test("a template's file is read from the task's directory only", () => {
  writeFileSync(join(dir, "in.tmpl"), '{{ env "A" }}');
  symlinkSync("/etc/passwd", join(dir, "escape"));
  const from = (file: string) => order({ env: { A: "1" }, templates: [template("", { from: { file } })] });
  files().render(from("in.tmpl"), target());
  expect(read("conf/app.ini")).toBe("1");
  expect(() => files().render(from("escape"), target())).toThrow("spec.templates[0]");
  expect(() => files().render(from("missing"), target())).toThrow("spec.templates[0]: missing: missing not found");
});

test("no template is written if one of them cannot be rendered", () => {
  const task = order({ templates: [template("a", { path: "a" }), template('{{ label "none" }}')] });
  expect(() => files().render(task, target())).toThrow('spec.templates[1]: line 1: label "none" is not known');
  expect(existsSync(join(dir, "a"))).toBe(false);
});
