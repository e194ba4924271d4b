import { createServer } from "node:http2";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { afterEach, describe, expect, it } from "vitest";
import { type AgentIdentity, agentName, isSameAgent, serverOptions } from "./agent-identity.ts";
import { AgentSessions } from "./agent-sessions.ts";
import type { TlsMode } from "./tls-mode.ts";
import { TlsServer } from "./tls-server.ts";

const host = "127.0.0.1";
const validity = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 3_600_000) };
const authority = () => createCertificateAuthority("test", validity.notBefore, validity.notAfter);

async function identityOf(ca: KeyPair, app: string, mode: TlsMode = "require"): Promise<AgentIdentity> {
  const hosts = [agentName("default", app)];
  const { certificate, key } = await issueCertificate(ca, { ...validity, commonName: "agent", usage: "peer", hosts });
  return { mode, authorities: ca.certificate, certificate, key };
}

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A server as that of an agent, which answers every request with "tls" or "plain". */
async function startServer(identity: AgentIdentity | undefined): Promise<TlsServer> {
  const http = createServer((_request, response) =>
    response.end(response.stream.session?.encrypted === true ? "tls" : "plain"),
  );
  http.on("sessionError", () => undefined);
  const server = new TlsServer({
    tls: identity && { mode: identity.mode, options: serverOptions(identity) },
    onConnection(socket) {
      if ("getPeerCertificate" in socket && identity !== undefined && !isSameAgent(identity, socket.getPeerCertificate()))
        socket.destroy();
      else http.emit("connection", socket);
    },
  });
  await server.listen(0, host);
  ends.push(() => server.stop());
  return server;
}

function connectTo(server: TlsServer, identity: () => AgentIdentity | undefined): AgentSessions {
  const sessions = new AgentSessions({ host, port: server.port, identity, pingIntervalMs: 2_000, pingTimeoutMs: 2_000 });
  ends.push(() => sessions.abort());
  return sessions;
}

async function ask(sessions: AgentSessions): Promise<string> {
  try {
    const stream = await sessions.request("GET", "/", {}, {});
    // The session reports its end to the stream even after this has read it.
    stream.on("error", () => undefined);
    stream.end();
    let text = "";
    for await (const chunk of stream) text += String(chunk);
    return text === "" ? "closed" : text;
  } catch {
    return "refused";
  }
}

describe("agents of one App", () => {
  it("reach each other in every combination of modes that a change passes through", async () => {
    const ca = await authority();
    const [prefer, require] = [await identityOf(ca, "a", "prefer"), await identityOf(ca, "a", "require")];
    const answers: string[] = [];
    for (const [own, other] of [
      [undefined, prefer],
      [prefer, undefined],
      [prefer, prefer],
      [prefer, require],
      [require, prefer],
      [require, require],
    ])
      answers.push(await ask(connectTo(await startServer(other), () => own)));
    expect(answers).toEqual(["plain", "plain", "tls", "tls", "tls", "tls"]);
  });

  it("do not reach a server without TLS when they require it, nor are they reached without it", async () => {
    const require = await identityOf(await authority(), "a");
    expect(await ask(connectTo(await startServer(undefined), () => require))).toBe("refused");
    expect(await ask(connectTo(await startServer(require), () => undefined))).toMatch(/refused|closed/);
  });

  it("use rotated certificates for new connections, and trust both authorities in the meantime", async () => {
    const [first, second] = [await authority(), await authority()];
    const both = { authorities: first.certificate + second.certificate };
    const server = await startServer({ ...(await identityOf(first, "a")), ...both });
    let own: AgentIdentity = await identityOf(first, "a");
    expect(await ask(connectTo(server, () => own))).toBe("tls");
    own = { ...(await identityOf(second, "a")), ...both };
    const sessions = connectTo(server, () => own);
    expect(await ask(sessions)).toBe("tls");
    const next = await identityOf(second, "a");
    server.setCertificates(serverOptions(next));
    expect([await ask(sessions), await ask(connectTo(server, () => next))]).toEqual(["tls", "tls"]);
    own = await identityOf(first, "a");
    expect(await ask(connectTo(server, () => own))).toBe("refused");
  });
});

describe("a stolen certificate", () => {
  it("of another App is rejected, by its authority or, if that is the same, by its name", async () => {
    const ca = await authority();
    const server = await startServer(await identityOf(ca, "a"));
    const other = await identityOf(await authority(), "a");
    const sameAuthority = { ...(await identityOf(ca, "b")), authorities: ca.certificate };
    for (const mode of ["prefer", "require"] as const)
      for (const stolen of [{ ...other, authorities: ca.certificate }, sameAuthority, other])
        expect(await ask(connectTo(server, () => ({ ...stolen, mode })))).toMatch(/refused|closed/);
    expect(await ask(connectTo(server, () => ({ ...sameAuthority, mode: "require" })))).not.toBe("tls");
  });
});
