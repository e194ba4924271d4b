import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type ClientRequest, type IncomingMessage, request as requestOverHttp } from "node:http";
import { request as requestOverTls, type RequestOptions } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ensurePki, type Pki } from "../auth/certificates/pki.ts";
import type { PipelineRequest } from "../endpoints/outcome.ts";
import { systemUser } from "../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { startHttpServer } from "./server/http-server.ts";
import type { HttpServer } from "./server/http-server-options.ts";

/** Lists of about 7 MB, which exceed all buffers between the server and a client that does not read. */
const objects = 170;
const objectBytes = 40_000;

let directory: string;
let pki: Pki;
let environment: TestEnvironment;
let server: HttpServer;
const failures: unknown[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-slow-"));
  pki = await ensurePki(directory, Date.now());
  environment = await startTestEnvironment();
  const authenticate = () => systemUser;
  server = await startHttpServer({
    handle: environment.handle,
    authenticate,
    tls: { ...pki.server, clientAuthority: pki.authority.certificate },
    localSocket: { path: join(directory, "api.sock"), authenticate, onFailure: (error) => failures.push(error) },
    toTable: () => ({ columnDefinitions: [], rows: [] }),
    port: 0,
    clock: systemClock,
    newId: randomUUID,
    onError: (error) => failures.push(error),
  });
  for (const namespace of ["a", "b"]) {
    await write("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
    const creates = Array.from({ length: objects }, (_, index) => {
      // Of different sizes, so that no two parts of a list begin at the same place of an object.
      const data = { value: randomBytes(objectBytes / 2 + index).toString("hex") };
      return write("POST", path(namespace), { metadata: { name: nameOf(index) }, data });
    });
    await Promise.all(creates);
  }
});
afterAll(async () => {
  await server.close();
  await environment.stop();
  await rm(directory, { recursive: true, force: true });
});

const path = (namespace: string): string => `/api/v1/namespaces/${namespace}/configmaps`;
const nameOf = (index: number): string => `m${String(index).padStart(4, "0")}`;

async function write(method: PipelineRequest["method"], target: string, body?: object): Promise<void> {
  const outcome = await environment.handle({
    method,
    path: target,
    user: systemUser,
    userAgent: "test",
    ...(body === undefined ? {} : { body: { ...body, apiVersion: "v1" } }),
  });
  if (outcome.kind === "status" && outcome.status.status === "Failure") throw new Error(outcome.status.message);
}

/** The list as it is now, joined from its objects: the exact text that a client must receive. */
async function textOf(namespace: string): Promise<string> {
  const outcome = await environment.handle({ method: "GET", path: path(namespace), user: systemUser, userAgent: "test" });
  if (outcome.kind !== "list") throw new TypeError(`unexpected ${outcome.kind}`);
  const { items, itemSkip, listMeta } = outcome;
  const joined = items.map(({ bytes }) => `{${Buffer.from(bytes).toString("utf8", itemSkip)}`).join(",");
  return `{"kind":"ConfigMapList","apiVersion":"v1","metadata":${JSON.stringify(listMeta)},"items":[${joined}]}`;
}

const overSocket = (namespace: string, headers = {}): Promise<Body> =>
  responseTo(requestOverHttp, { socketPath: join(directory, "api.sock"), path: path(namespace), headers });
const overTls = (namespace: string, headers = {}): Promise<Body> =>
  responseTo(requestOverTls, { port: server.port, ca: pki.authority.certificate, path: path(namespace), headers });

/** A response whose body is not read yet. */
async function responseTo(send: (options: RequestOptions) => ClientRequest, options: RequestOptions): Promise<Body> {
  const [response] = (await once(send({ ...options, agent: false }).end(), "response")) as [IncomingMessage];
  return new Body(response);
}

/** The body of a response, read as slowly as its owner likes. */
class Body {
  readonly #response: IncomingMessage;
  readonly #chunks: Buffer[] = [];

  constructor(response: IncomingMessage) {
    this.#response = response;
  }

  async readSome(bytes: number): Promise<void> {
    for (let left = bytes; left > 0; ) {
      const chunk: unknown = this.#response.read();
      if (Buffer.isBuffer(chunk)) {
        this.#chunks.push(chunk);
        left -= chunk.length;
      } else await once(this.#response, "readable");
    }
  }

  async text(): Promise<string> {
    for await (const chunk of this.#response) this.#chunks.push(chunk);
    const body = Buffer.concat(this.#chunks);
    return (this.#response.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString();
  }
}

/** Comparing the texts themselves would print megabytes. */
function firstDifference(text: string, expected: string): number | undefined {
  if (text === expected) return undefined;
  let index = 0;
  while (index < expected.length && text[index] === expected[index]) index += 1;
  return index;
}

test("clients that read slowly receive every byte of their list while others read other lists and objects change", async () => {
  const expected = await textOf("a");
  const gzip = { "accept-encoding": "gzip" };
  const slow = await Promise.all([overSocket("a"), overTls("a"), overSocket("a", gzip)]);
  for (let round = 0; round < 2; round++) {
    const other = await textOf("b");
    const fast = await Promise.all([overSocket("b"), overTls("b"), overSocket("b", gzip)]);
    for (const text of await Promise.all(fast.map((body) => body.text()))) expect(firstDifference(text, other)).toBeUndefined();
    // Slow readers get the state in which their lists began.
    await write("DELETE", `${path("a")}/${nameOf(objects - 1 - round)}`);
    await write("POST", path("a"), { metadata: { name: `${nameOf(objects - 50)}-${round}` } });
    const data = { value: "y".repeat(objectBytes * 2) };
    await write("PUT", `${path("a")}/${nameOf(objects - 20 - round)}`, {
      metadata: { name: nameOf(objects - 20 - round) },
      data,
    });
    for (const body of slow) await body.readSome(objectBytes * 10);
  }
  for (const text of await Promise.all(slow.map((body) => body.text())))
    expect(firstDifference(text, expected)).toBeUndefined();
  expect(failures).toEqual([]);
});
