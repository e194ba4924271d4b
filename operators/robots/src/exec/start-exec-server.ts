import { randomBytes } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { ClusterIdentities } from "@keelson/controller/access";
import type { EventRecorder } from "@keelson/controller";
import type { ServerContext } from "@keelson/operator";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { replaceFile } from "../commands/broker/replace-file.ts";
import { mqttFlags } from "../flags.ts";
import type { LazyAuthority } from "../identity/authority/lazy-authority.ts";
import { ExecAccess } from "./exec-access.ts";
import { execServerName } from "./exec-frames.ts";
import { ExecServer } from "./exec-server.ts";
import type { ExecSessions } from "./exec-sessions.ts";

/** File below the operator's data directory with the URL and the token of the exec server on loopback. */
const execAccessFile = (dataDir: string): string => join(dataDir, "exec-access.json");

/** File below the operator's data directory with the authorities of the exec server's certificate. */
const execAuthorityFile = (dataDir: string): string => join(dataDir, "exec-ca.crt");

/** The certificate is issued anew with every start of the operator. */
const certificateLifeMs = 5 * 365 * 86_400_000;

/** Parts of the exec server. */
export interface ExecServerParts {
  readonly sessions: ExecSessions;
  readonly authority: LazyAuthority;
  readonly events: EventRecorder;
}

/** A running exec server. */
export interface RunningExecServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** A certificate for {@link execServerName}. Its key exists only in this process. */
function execCertificate(authority: KeyPair, now: number): Promise<KeyPair> {
  return issueCertificate(authority, {
    ...{ commonName: execServerName, usage: "server", hosts: [execServerName] },
    ...{ notBefore: new Date(0), notAfter: new Date(now + certificateLifeMs) },
  });
}

/**
 * Starts the server of `keelson robots exec`. On loopback it accepts the token in {@link execAccessFile}, which is new with every start; on
 * other addresses it serves TLS and accepts tokens of the cluster.
 */
export async function startExecServer(context: ServerContext, parts: ExecServerParts): Promise<RunningExecServer> {
  const { cache, client, clock, dataDir, flags, log, onChange } = context;
  const namespace = mqttFlags.namespace.read(flags);
  const address = mqttFlags.execBindAddress.read(flags);
  const isLocal = address === "localhost" || address === "::1" || (isIP(address) === 4 && address.startsWith("127."));
  const token = isLocal ? randomBytes(32).toString("base64url") : undefined;
  const authority = isLocal ? undefined : await parts.authority.get();
  const server = new ExecServer({
    access: new ExecAccess({ identities: new ClusterIdentities({ client, clock }), localToken: token }),
    ...{ sessions: parts.sessions, namespace, events: parts.events, clock, log },
    taskNamed: (name) => cache.get(Task, { namespace, name }),
    robotNamed: (name) => cache.get(Robot, { namespace, name }),
    onChange: (listener) => {
      const unsubscribe = [onChange(Robot, listener), onChange(Task, listener)];
      return () => unsubscribe.forEach((end) => end());
    },
    ...(authority === undefined ? {} : { tls: await execCertificate(authority.brokerAuthority, clock.now()) }),
  });
  const url = await server.listen(mqttFlags.execPort.read(flags), address);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  if (authority === undefined) await replaceFile(execAccessFile(dataDir), `${JSON.stringify({ url, token })}\n`, 0o600);
  else await replaceFile(execAuthorityFile(dataDir), authority.bundle, 0o644);
  return {
    url,
    async stop() {
      await server.stop();
      await rm(execAccessFile(dataDir), { force: true });
    },
  };
}
