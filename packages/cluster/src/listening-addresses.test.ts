import { createServer } from "node:net";
import { expect, it } from "vitest";
import { listeningAddresses } from "./listening-addresses.ts";

const header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

it("reads the addresses of listening sockets, of both families, once each", async () => {
  const tables: Readonly<Record<string, string>> = {
    "/proc/net/tcp": [
      header,
      "   0: 0200407F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0",
      "   1: 0200407F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0",
      "   2: 0300417F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0",
      "",
    ].join("\n"),
    "/proc/net/tcp6": [
      header,
      "   0: 0000000000000000FFFF00000401BF7F:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000",
      "   1: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000",
    ].join("\n"),
  };
  expect(await listeningAddresses((file) => Promise.resolve(tables[file] ?? ""))).toEqual(["127.64.0.2", "127.191.1.4"]);
});

it("finds none where the system has no such tables", async () => {
  expect(await listeningAddresses(() => Promise.reject(new Error("ENOENT")))).toEqual([]);
});

it.runIf(process.platform === "linux")("finds a listener of this machine", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen({ host: "127.200.30.7", port: 0 }, resolve));
  expect(await listeningAddresses()).toContain("127.200.30.7");
  await new Promise((resolve) => void server.close(resolve));
});
