import { connect } from "node:net";
import { text } from "node:stream/consumers";
import type { DeepReadonly } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../../apps/cli/src/testing/temporary-folder.ts";
import { startTestCluster, type TestCluster } from "./test-cluster.ts";

const port = 8080;
/** Sends its process ID to everyone who connects. Probes reset their connections. */
const server = `
const answer = (socket) => socket.on("error", () => {}).end(String(process.pid));
require("node:net").createServer(answer).listen(${port}, process.env.KEELSON_POD_IP);`;

const start = (dataDir: string): Promise<TestCluster> =>
  startTestCluster({
    serve: (options) => serveApi({ ...options, clock: systemClock, random: systemRandom, port: 0 }),
    dataDir,
  });

/** Creates a Pod that listens on its address. Resolves to the address when it is ready. */
async function startServer(client: Client, name: string): Promise<string> {
  await client.create(Pod, {
    metadata: { name, namespace: "default" },
    spec: {
      automountServiceAccountToken: false,
      containers: [
        {
          name: "main",
          image: "host",
          command: [process.execPath, "-e", server],
          readinessProbe: { tcpSocket: { port }, periodSeconds: 1 },
        },
      ],
    },
  });
  const isReady = (each?: DeepReadonly<PodObject>): boolean =>
    each?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
  const pod = await watched(client, Pod, name, isReady);
  return pod?.status?.podIP ?? "";
}

const networkOf = (address: string): string => address.split(".", 2).join(".");

it("keeps its addresses when it starts again while a Pod listens on one of them", async () => {
  using folder = temporaryFolder();
  let cluster = await start(folder.path);
  try {
    const kept = await startServer(cluster.client, "kept");
    const pid = await text(connect(port, kept));
    await cluster.stop();
    cluster = await start(folder.path);
    const added = await startServer(cluster.client, "added");
    expect(networkOf(added)).toBe(networkOf(kept));
    expect(added).not.toBe(kept);
    expect(await text(connect(port, kept))).toBe(pid);
  } finally {
    await cluster.shutDown();
  }
});
