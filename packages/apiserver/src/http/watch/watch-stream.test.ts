import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test, vi } from "vitest";
import type { EncodedObject, WatchSink } from "../../endpoints/outcome.ts";
import { configMaps } from "../../testing/config-maps.ts";
import { jsonLines } from "./watch-encoding.ts";
import { ChunkCache, WatchStream } from "./watch-stream.ts";

test("sends a hundred watchers of an event the same bytes, encoded once", () => {
  const clock = createVirtualClock();
  const chunks = new ChunkCache(jsonLines);
  const object: KubernetesObject = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", resourceVersion: "7" } };
  const encoded: EncodedObject = { bytes: Buffer.from(JSON.stringify(object)), object };
  const sinks: WatchSink[] = [];
  const written: unknown[] = [];
  for (let index = 0; index < 100; index++) {
    const socket = new Socket();
    vi.spyOn(socket, "write").mockImplementation((chunk: unknown) => written.push(chunk) > 0);
    const request = new IncomingMessage(socket);
    request.httpVersionMajor = 1;
    request.httpVersionMinor = 1;
    const response = new ServerResponse(request);
    response.assignSocket(socket);
    response.writeHead(200);
    const stream = new WatchStream({
      response,
      outcome: {
        kind: "watch",
        resource: configMaps,
        open(sink) {
          sinks.push(sink);
          return { close: () => undefined };
        },
      },
      representation: { format: "json", as: undefined, version: "v1", pretty: false },
      context: () => {
        throw new Error("no conversion expected");
      },
      clock,
      limits: { pendingBytes: 1024, stallMs: 1_000 },
      chunks,
      fanOut: { add: (send) => send(), delete: () => undefined },
    });
    stream.start();
  }
  written.length = 0;
  for (const sink of sinks) sink.events([{ type: "ADDED", object: encoded }]);
  expect(written.length).toBe(100);
  expect(new Set(written).size).toBe(1);
  const line = `{"type":"ADDED","object":${JSON.stringify(object)}}\n`;
  expect(String(written[0])).toBe(`${line.length.toString(16)}\r\n${line}\r\n`);

  written.length = 0;
  sinks[0]?.events([
    { type: "ADDED", object: encoded },
    { type: "ADDED", object: encoded },
  ]);
  // Events of one batch share a chunk.
  expect(written.map(String)).toEqual([`${(2 * line.length).toString(16)}\r\n${line}${line}\r\n`]);
});
