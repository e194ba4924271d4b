import type { PodObject } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { ApiRequest, Transport } from "@keelson/api-machinery/transport";
import { createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { expect, test } from "vitest";
import { StatusWriter } from "./status-writer.ts";
import { podOf, SimulatedPod } from "../testing/simulated-pod.ts";

test("writes a transition once, although the clock advances before the Pod is observed", async () => {
  const clock = createVirtualClock();
  const simulated = new SimulatedPod(podOf({ restartPolicy: "Never" })).started();
  const running: PodObject = { ...podOf({ restartPolicy: "Never" }), status: simulated.status };
  simulated.apply({ kind: "changed", pod: running });
  const writes: PodObject[] = [];
  const client = createClient({
    fieldManager: "kubelet",
    transport: recordingTransport(async ({ body }) => {
      writes.push(body as PodObject);
      await clock.advance(1500);
    }),
  });
  const writer = new StatusWriter({
    node: { client, clock, hostIP: "127.0.0.1", log: silentLogger },
    podIP: "127.0.0.2",
    // A writer that never stops must not hang the test.
    state: () => (writes.length < 5 ? simulated.state : undefined),
    signal: new AbortController().signal,
  });
  simulated.exited(0);
  writer.request();
  await writer.settled();
  // An older version of the Pod arrives late.
  simulated.apply({ kind: "changed", pod: running });
  writer.request();
  await writer.settled();
  expect(writes.map(({ status }) => status?.phase)).toEqual(["Succeeded"]);
});

/** A transport that answers every request with its body. */
function recordingTransport(onRequest: (request: ApiRequest) => Promise<void>): Transport {
  return {
    async request(request) {
      await onRequest(request);
      return { status: 200, headers: {}, body: request.body };
    },
    watch: () => Promise.reject(new Error("not a watch")),
    close: () => Promise.resolve(),
  };
}
