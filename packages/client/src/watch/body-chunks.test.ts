import { PassThrough, Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { bodyChunks } from "./body-chunks.ts";

test("returns every chunk in order, and limits the buffer for a slow reader", async () => {
  let made = 0;
  const body = new Readable({
    highWaterMark: 1,
    read() {
      this.push(made < 200 ? Buffer.from([made++]) : null);
    },
  });
  const seen: number[] = [];
  let ahead = 0;
  for await (const chunk of bodyChunks(body)) {
    seen.push(...chunk);
    ahead = Math.max(ahead, made - seen.length);
    await turn();
  }
  expect(seen).toEqual(Array.from({ length: 200 }, (_, index) => index));
  // 16 that wait, and what the body itself holds.
  expect(ahead).toBeLessThan(20);
});

test("returns the chunks before an error, then throws it", async () => {
  const body = new PassThrough();
  body.write("a");
  const seen: string[] = [];
  const read = (async () => {
    for await (const chunk of bodyChunks(body)) {
      seen.push(chunk.toString());
      body.destroy(new Error("cut"));
    }
  })();
  await expect(read).rejects.toThrow("cut");
  expect(seen).toEqual(["a"]);
});

test.each([
  ["broken", new Error("cut")],
  ["closed", undefined],
])("does not hang on a body that is %s before it is read", async (_, error) => {
  const body = new PassThrough().on("error", () => {});
  body.destroy(error);
  const read = collect(bodyChunks(body));
  await (error === undefined ? expect(read).resolves.toEqual([]) : expect(read).rejects.toThrow("cut"));
});

test("leaves no listener behind if its reader stops early", async () => {
  const body = new PassThrough();
  const before = body.listenerCount("data") + body.listenerCount("error") + body.listenerCount("close");
  body.write("a");
  for await (const _ of bodyChunks(body)) break;
  expect(body.listenerCount("data") + body.listenerCount("error") + body.listenerCount("close")).toBe(before);
});

async function collect(chunks: AsyncIterable<Buffer>): Promise<Buffer[]> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}
