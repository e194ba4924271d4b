import { createRequire } from "node:module";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { silentLogger } from "@keelson/controller";
import { writeToStream } from "mqtt-packet";
import { expect, it } from "vitest";
import { createAedes } from "../broker/create-aedes.ts";

it("writes packets with message ids without the library's cache of numbers", async () => {
  const { cache }: { readonly cache: object } = createRequire(import.meta.url)("mqtt-packet/numbers.js");
  createAedes({
    authenticate: () => undefined,
    authorizePublish: () => undefined,
    authorizeSubscribe: () => undefined,
    authorizeForward: () => null,
    log: silentLogger,
    readTimeoutMs: undefined,
  }).close();
  const stream = new PassThrough();
  writeToStream({ cmd: "puback", messageId: 0x1234 }, stream);
  stream.end();
  expect(await buffer(stream)).toEqual(Buffer.from([0x40, 2, 0x12, 0x34]));
  expect(Object.keys(cache)).toHaveLength(0);
});
