import { Duplex, PassThrough, Readable, Writable } from "node:stream";
import { createDeferred } from "@keelson/api-machinery/deferred";
import type { ExecSession } from "@keelson/execution";
import { expect, it } from "vitest";
import { encodeFrame, execChannels } from "../protocol/exec-frames.ts";
import { serveExec } from "./serve-exec.ts";

it("waits for a command to finish once, however often its input stalls, and ends a stalled input with it", async () => {
  const exit = createDeferred<{ readonly exitCode: number }>();
  let waits = 0;
  const read: string[] = [];
  const stalled = createDeferred<void>();
  const stdin = new Writable({
    highWaterMark: 1,
    write(chunk: Buffer, _, done) {
      read.push(chunk.toString());
      // The last one is not read.
      if (read.length < 5) setImmediate(done);
      else stalled.resolve();
    },
  });
  const session: ExecSession = {
    stdin,
    stdout: Readable.from([]),
    resize: () => Promise.resolve(),
    signal: () => Promise.resolve(),
    kill: () => Promise.resolve(),
    exited() {
      waits += 1;
      return exit.promise;
    },
  };
  const incoming = new PassThrough();
  const outgoing: Buffer[] = [];
  const socket = Duplex.from({
    readable: incoming,
    writable: new Writable({
      write(chunk: Buffer, _, done) {
        outgoing.push(chunk);
        done();
      },
    }),
  });
  const served = serveExec(socket, Buffer.alloc(0), session);
  for (const text of ["a", "b", "c", "d", "e", "f"]) incoming.write(encodeFrame(execChannels.stdin, Buffer.from(text)));
  await stalled.promise;
  expect(read).toEqual(["a", "b", "c", "d", "e"]);
  expect(waits).toBe(2);
  exit.resolve({ exitCode: 3 });
  incoming.end();
  await served;
  expect(outgoing).toEqual([encodeFrame(execChannels.exit, Buffer.from('{"exitCode":3}'))]);
});
