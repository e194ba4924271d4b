import { once } from "node:events";
import { connect as connectPlain, createServer, type Server, type Socket } from "node:net";
import { X509Certificate } from "node:crypto";
import { connect as connectTls } from "node:tls";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";
import { silentLogger } from "@keelson/controller";
import { afterEach, expect, it } from "vitest";
import { TlsSplitter } from "./tls-splitter.ts";

const sockets: Socket[] = [];
let server: Server;

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.close();
  await once(server, "close");
});

it("closes a connection that never sends a byte, but not a TLS connection that is silent after its handshake", async () => {
  const validity = [new Date(0), new Date(Date.now() + 3_600_000)] as const;
  const authority = await createCertificateAuthority("robots", ...validity);
  const { certificate, key } = await issueCertificate(authority, {
    ...{ commonName: "broker", usage: "server", hosts: ["127.0.0.1"], notBefore: validity[0], notAfter: validity[1] },
  });
  let accept: (socket: Socket) => void = () => {};
  const accepted = new Promise<Socket>((resolve) => {
    accept = resolve;
  });
  const splitter = new TlsSplitter({
    loadTls: async () => ({ certificate, key, authorities: [new X509Certificate(authority.certificate)] }),
    log: silentLogger,
    onConnection: (socket) => accept(socket),
    handshakeTimeoutMs: 2000,
  });
  server = createServer((socket) => splitter.accept(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;

  const idle = connectTls({ host: "127.0.0.1", port, ca: authority.certificate });
  sockets.push(idle);
  await once(idle, "secureConnect");
  const serverSide = await accepted;
  // Connected later, so its timeout expires later than one that was left on the TLS connection.
  const silent = connectPlain(port, "127.0.0.1");
  sockets.push(silent);
  silent.resume();
  await once(silent, "close");

  expect(serverSide.destroyed).toBe(false);
  serverSide.write("after the timeout");
  expect(String((await once(idle, "data"))[0])).toBe("after the timeout");
});
