import { systemClock } from "@keelson/api-machinery/time";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { RdbFeeder } from "./rdb-feeder.ts";
import { encodeCommand } from "./resp-client.ts";
import { streamRdb } from "./rdb-stream.ts";

const password = "secret";
const bytes = Buffer.alloc(300_000, "0123456789");
let feeder: RdbFeeder | undefined;
afterEach(async () => {
  await feeder?.stop();
  feeder = undefined;
});

async function start(data: readonly Uint8Array[] = [bytes.subarray(0, 100_000), bytes.subarray(100_000)]): Promise<number> {
  const source = (async function* () {
    yield* data;
  })();
  feeder = await RdbFeeder.start({ host: "127.0.0.1", password, offset: 42, sizeBytes: bytes.length, data: source });
  return feeder.port;
}

async function read(port: number, secret = password): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of streamRdb({ host: "127.0.0.1", port, password: secret, clock: systemClock })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe("a feeder", () => {
  it("sends a snapshot to a server that authenticates", async () => {
    expect((await read(await start())).equals(bytes)).toBe(true);
    expect(feeder?.failure).toBeUndefined();
  });

  it("rejects another password", async () => {
    await expect(read(await start(), "wrong")).rejects.toMatchObject({ code: "SnapshotFailed", message: /NOAUTH/ });
  });

  it("fails if the server requests the snapshot again", async () => {
    const port = await start();
    await read(port);
    await expect(read(port)).rejects.toMatchObject({ code: "SnapshotFailed" });
    expect(feeder?.failure?.message).toMatch(/could not load the snapshot/);
  });

  it.each([
    ["shorter", [bytes.subarray(1)]],
    ["longer", [bytes, bytes]],
  ])("fails for a snapshot that is %s than announced", async (_, data) => {
    await read(await start(data)).catch(() => undefined);
    expect(feeder?.failure?.message).toMatch(/instead of 300000/);
  });

  it("accepts the newlines and acknowledgements of a server that is loading", async () => {
    const socket = connect(await start(), "127.0.0.1");
    const received = (async () => {
      let length = 0;
      for await (const chunk of socket) {
        length += (chunk as Buffer).length;
        if (length > bytes.length) socket.write(`\n\n${encodeCommand(["REPLCONF", "ACK", "1"])}\n${encodeCommand(["PING"])}`);
        if ((chunk as Buffer).toString("latin1").endsWith("+PONG\r\n")) return true;
      }
      return false;
    })();
    socket.write(encodeCommand(["AUTH", password]) + encodeCommand(["PSYNC", "?", "-1"]));
    expect(await received).toBe(true);
  });
});
