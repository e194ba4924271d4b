import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { isJsonObject } from "@keelson/api-machinery";
import { RobotsError } from "../robots-error.ts";
import { execProtocol, execServerName } from "./exec-frames.ts";

/** Options of {@link connectExec}. */
export interface ConnectExecOptions {
  /** URL of the exec server. */
  readonly url: string;
  readonly token: string;
  /** Authority that signed the server's certificate, in PEM; required with https. */
  readonly authority?: string;
  readonly namespace: string;
  readonly task: string;
  /** What is requested of the task. */
  readonly request: "exec" | "log";
  readonly signal: AbortSignal;
}

/** A connection to the exec server, and what it has sent already. */
export interface ExecConnection {
  readonly socket: Duplex;
  readonly head: Buffer;
}

/** Connects to the exec server for a Task. **Errors**: `RobotsError` `ExecRejected` with the server's reason; those of the connection. */
export function connectExec(options: ConnectExecOptions): Promise<ExecConnection> {
  const { url, token, authority, namespace, task, request: what, signal } = options;
  const path = `/v1/namespaces/${encodeURIComponent(namespace)}/tasks/${encodeURIComponent(task)}/${what}`;
  const target = new URL(path, url);
  const headers = { authorization: `Bearer ${token}`, connection: "Upgrade", upgrade: execProtocol };
  return new Promise((resolve, reject) => {
    const request =
      target.protocol === "https:"
        ? // The authority also signs the certificates of brokers, so the name must be that of the exec server. The address does not matter.
          httpsRequest(target, { headers, ca: authority, minVersion: "TLSv1.3", servername: execServerName, signal })
        : httpRequest(target, { headers, signal });
    request.on("upgrade", (_response, socket, head) => {
      socket.on("error", () => {});
      resolve({ socket, head });
    });
    request.on("response", (response) => void rejectionOf(response).then(reject, reject));
    request.on("error", reject);
    request.end();
  });
}

async function rejectionOf(response: IncomingMessage): Promise<RobotsError> {
  const body = (await text(response)).slice(0, 4096);
  let message = `the exec server responded with status ${response.statusCode}`;
  try {
    const status: unknown = JSON.parse(body);
    if (isJsonObject(status) && typeof status.message === "string") ({ message } = status as { message: string });
  } catch {
    // Not from our server.
  }
  return new RobotsError("ExecRejected", message);
}
