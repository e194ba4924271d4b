import { type IncomingMessage, request, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { parseJsonObject, type Status, statusError } from "@keelson/api-machinery";
import type { ServeApiOptions } from "@keelson/apiserver";
import { processAccessHeader } from "@keelson/cluster/api-server";

type Subresources = NonNullable<ServeApiOptions["subresources"]>;
type Handler = Subresources[string];
type Call = Parameters<Handler>[0];

const subresources = ["log", "exec", "attach", "portforward"] as const;

/**
 * Handlers that forward the Pod subresources of the node to the kubelet's Unix socket. `mayUseProcess` says whether a user may run
 * commands in bare processes of the node. While no kubelet listens, requests fail with 503.
 */
export function proxiedPodSubresources(
  socketPath: string,
  mayUseProcess: (user: Call["request"]["user"]) => boolean,
): Subresources {
  const handlerOf = (subresource: string): Handler => createHandler(socketPath, subresource, mayUseProcess);
  return Object.fromEntries(subresources.map((name) => [`/pods/${name}`, handlerOf(name)]));
}

/** The header that tells a kubelet whether the sender may run commands in bare processes. */
export function processAccess(mayUseProcess: boolean): Readonly<Record<string, string>> {
  return { [processAccessHeader]: mayUseProcess ? "allowed" : "denied" };
}

function createHandler(
  socketPath: string,
  subresource: string,
  mayUseProcess: (user: Call["request"]["user"]) => boolean,
): Handler {
  return async (call) => {
    const isUpgrade = call.request.headers?.["upgrade"] !== undefined;
    const access = processAccess(mayUseProcess(call.request.user));
    if (isUpgrade) return { kind: "upgrade", connect: (connection) => proxyUpgrade(socketPath, connection, access) };
    const response = await forward(socketPath, pathOf(call, subresource), call);
    const { statusCode = 500, headers } = response;
    if (statusCode !== 200) return { kind: "status", status: parseStatus(await text(response), statusCode) };
    const contentType = headers["content-type"] ?? "text/plain";
    return { kind: "raw", status: statusCode, headers: { "content-type": contentType }, body: response };
  };
}

function pathOf({ info, query }: Call, subresource: string): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, value);
  const pod = `/api/v1/namespaces/${encodeURIComponent(info.namespace)}/pods/${encodeURIComponent(info.name)}`;
  return `${pod}/${subresource}?${parameters.toString()}`;
}

function forward(socketPath: string, path: string, { request: { method, signal } }: Call): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath, path, method, agent: false });
    const abort = (): void => void outgoing.destroy();
    signal?.addEventListener("abort", abort, { once: true });
    outgoing.once("close", () => signal?.removeEventListener("abort", abort));
    outgoing.once("response", resolve);
    outgoing.on("error", (error) => reject(statusError("ServiceUnavailable", unreachable(error))));
    outgoing.end();
  });
}

type Connection = Parameters<Extract<Awaited<ReturnType<Handler>>, { kind: "upgrade" }>["connect"]>[0];

/** Repeats the client's upgrade request to the kubelet and connects the two sockets, or relays the kubelet's error. */
function proxyUpgrade(
  socketPath: string,
  { socket, head, url, headers, onStatus }: Connection,
  access: Readonly<Record<string, string>>,
): void {
  const fail = (error: Error): void => {
    const status = statusError("ServiceUnavailable", unreachable(error)).status;
    onStatus(status.code ?? 503);
    respond(socket, status.code ?? 503, JSON.stringify(status));
  };
  socket.on("error", () => {});
  const { authorization: _, ...forwarded } = headers;
  const outgoing = request({ socketPath, path: url, headers: { ...forwarded, ...access }, agent: false });
  outgoing.on("error", fail);
  outgoing.once("response", (response) => {
    onStatus(response.statusCode ?? 500);
    text(response).then(
      (body) => respond(socket, response.statusCode ?? 500, body),
      (error: unknown) => fail(error instanceof Error ? error : new Error(String(error))),
    );
  });
  outgoing.once("upgrade", (response, kubelet, kubeletHead) => {
    outgoing.off("error", fail);
    onStatus(response.statusCode ?? 101);
    kubelet.on("error", () => {});
    const lines = [`HTTP/1.1 ${response.statusCode ?? 101} ${response.statusMessage ?? ""}`];
    for (let index = 0; index + 1 < response.rawHeaders.length; index += 2) {
      lines.push(`${response.rawHeaders[index]}: ${response.rawHeaders[index + 1]}`);
    }
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    if (kubeletHead.length > 0) socket.write(kubeletHead);
    if (head.length > 0) kubelet.write(head);
    connect(socket, kubelet);
  });
  socket.once("close", () => outgoing.destroy());
  outgoing.end();
}

/** Copies in both directions. When one side closes, so does the other. */
function connect(client: Duplex, kubelet: Duplex): void {
  client.pipe(kubelet);
  kubelet.pipe(client);
  client.once("close", () => kubelet.destroy());
  kubelet.once("close", () => client.end());
}

function respond(socket: Duplex, code: number, body: string): void {
  socket.end(
    `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? ""}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function parseStatus(body: string, code: number): Status {
  const parsed = parseJsonObject(body);
  if (parsed?.["kind"] === "Status") return parsed as unknown as Status;
  return statusError("InternalError", `the kubelet responded with HTTP status ${code}`).status;
}

function unreachable(error: Error): string {
  return `the kubelet is not reachable: ${error.message}`;
}
