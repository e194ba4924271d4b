import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { whenWritable } from "./when-writable.ts";

it("resolves when the stream has drained or is closed, and leaves no listeners", async () => {
  const stream = new PassThrough({ highWaterMark: 1 });
  const before = stream.eventNames();
  for (let turn = 0; turn < 20; turn++) {
    expect(stream.write("data")).toBe(false);
    const drained = whenWritable(stream);
    stream.read();
    await drained;
  }
  expect([stream.eventNames(), stream.listenerCount("close")]).toEqual([before, 0]);
  stream.write("data");
  const closed = whenWritable(stream);
  stream.destroy();
  await closed;
  expect([stream.eventNames(), stream.listenerCount("close")]).toEqual([before, 0]);
  await whenWritable(stream);
});
