import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { afterEach, expect, it } from "vitest";
import { fencePrimaryOf } from "./switchover.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** A message of the server: its type, its length and its content. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}

function failure(text: string, routine: string): Buffer {
  const fields = { S: "FATAL", V: "FATAL", C: "28000", M: text, R: routine };
  const content = Object.entries(fields).map(([name, value]) => `${name}${value}\0`);
  return message("E", Buffer.from(`${content.join("")}\0`));
}

/** Asks for a password: the connection is admitted. */
const admitted = message("R", Buffer.from("\0\0\0\x0aSCRAM-SHA-256\0\0", "latin1"));
const translated = failure("kein pg_hba.conf-Eintrag für Host »127.0.0.1«", "ClientAuthentication");
const rejected = failure("pg_hba.conf lehnt Verbindung ab für Host »127.0.0.1«", "ClientAuthentication");
const noLogin = failure("Rolle »postgres« hat keine Berechtigung zum Einloggen", "InitializeSessionUserId");

/** Size of the request for TLS. */
const secureRequestBytes = 8;

/** A server whose first answer is `plain`, or `secure` with TLS. Without `secure` it has no TLS. Resolves to its port. */
async function start(plain: Buffer, secure?: Buffer): Promise<number> {
  const pair = secure && (await certificate());
  const answer = (socket: Socket, text: Buffer): void => {
    socket.on("error", () => undefined);
    socket.once("data", (request) => {
      if (request.length > secureRequestBytes) return void socket.write(text);
      socket.write(pair === undefined ? "N" : "S");
      if (pair === undefined || secure === undefined) return;
      const wrapped = new TLSSocket(socket, { isServer: true, cert: pair.certificate, key: pair.key });
      answer(wrapped, secure);
    });
  };
  const server = createServer((socket) => answer(socket, plain));
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

async function certificate(): Promise<KeyPair> {
  const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
  const ca = await createCertificateAuthority("test", validity.notBefore, validity.notAfter);
  return issueCertificate(ca, { ...validity, commonName: "postgres", usage: "peer", hosts: ["127.0.0.1"] });
}

it.each<[string, Buffer, Buffer | undefined, boolean]>([
  ["accepts only its agent, in any language, is fenced", translated, undefined, true],
  ["accepts only its agent with and without TLS is fenced", translated, translated, true],
  ["requires TLS must be terminated", rejected, admitted, false],
  ["requires TLS, but admits no superuser, must be terminated", rejected, noLogin, false],
  ["does not let the superuser log in must be terminated", noLogin, undefined, false],
])("a failed primary that %s", async (_, plain, secure, isFenced) => {
  const port = await start(plain, secure);
  const record = { role: "replica", primaryHost: "127.0.0.1", epoch: 1 } as const;
  const outcome = await fencePrimaryOf(record, { port, logins: () => [{ user: "postgres", password: "p" }] });
  expect(outcome).toMatchObject(isFenced ? { ok: true } : { ok: false, mustTerminate: true });
});
