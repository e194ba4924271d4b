import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { TLSSocket } from "node:tls";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";

/** A request that reached an {@link ExtensionServer}. */
export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** A small extension API server for the kind Flunder of wardle.example.com/v1, which remembers what reached it. */
export interface ExtensionServer {
  readonly port: number;
  /** Base64 of the authority that signed its certificate. */
  readonly caBundle: string;
  readonly requests: readonly ReceivedRequest[];
  /** Whether discovery is served in aggregated form too. */
  servesAggregated: boolean;
  /** The status of all responses instead of the regular ones. */
  status: number | undefined;
  /** Where OpenAPI v3 documents are redirected to. Default: nowhere. */
  documentLocation: string | undefined;
  close(): Promise<void>;
}

const group = "wardle.example.com";
const groupVersion = `${group}/v1`;
const apis = `/apis/${groupVersion}`;
const flunder = {
  apiVersion: groupVersion,
  kind: "Flunder",
  metadata: { name: "a", namespace: "default", resourceVersion: "7" },
};

/**
 * Starts an extension API server that accepts only clients with a certificate of `frontProxyAuthority` (PEM) for `front-proxy-client`, as the
 * Service `name` in the namespace `default`.
 */
export async function startExtensionServer(host: string, name: string, frontProxyAuthority: string): Promise<ExtensionServer> {
  const life = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 86_400_000) };
  const authority = await createCertificateAuthority("extension-ca", life.notBefore, life.notAfter);
  const pair = await issueCertificate(authority, {
    commonName: name,
    usage: "server",
    hosts: [`${name}.default.svc`],
    ...life,
  });
  const server = createServer({
    cert: pair.certificate,
    key: pair.key,
    ca: frontProxyAuthority,
    requestCert: true,
    rejectUnauthorized: true,
  });
  const running = new RunningExtension(server, Buffer.from(authority.certificate).toString("base64"));
  await new Promise<void>((resolve) => void server.listen(0, host, resolve));
  return running;
}

class RunningExtension implements ExtensionServer {
  readonly caBundle: string;
  readonly requests: ReceivedRequest[] = [];
  servesAggregated = false;
  status: number | undefined;
  documentLocation: string | undefined;
  readonly #server: Server;

  constructor(server: Server, caBundle: string) {
    this.#server = server;
    this.caBundle = caBundle;
    server.on("request", (request, response) => void this.#serve(request, response));
    server.on("upgrade", (request, socket) => {
      this.requests.push({ method: "GET", url: request.url ?? "", headers: request.headers, body: "" });
      socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n");
      socket.pipe(socket);
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url = "", headers } = request;
    const commonName: unknown = (request.socket as TLSSocket).getPeerCertificate().subject.CN;
    const isTrusted = commonName === "front-proxy-client";
    this.requests.push({ method, url, headers, body: await text(request) });
    const path = url.split("?")[0] ?? "";
    const status = isTrusted ? this.status : 401;
    if (status !== undefined) return reply(response, { kind: "Status", code: status }, status);
    const documents: Readonly<Record<string, unknown>> = {
      "/apis":
        this.servesAggregated && headers.accept?.includes("APIGroupDiscoveryList") === true
          ? aggregated
          : { kind: "APIGroupList" },
      [apis]: resourceList,
      "/openapi/v3": { paths: { [apis.slice(1)]: { serverRelativeURL: `/openapi/v3${apis}?hash=1` } } },
      [`/openapi/v3${apis}`]: { openapi: "3.0.0", paths: { [`${apis}/flunders`]: {} } },
      "/openapi/v2": {
        swagger: "2.0",
        paths: { [`${apis}/flunders`]: {}, "/apis/other/v1/": {} },
        definitions: { Flunder: {} },
      },
      [`${apis}/namespaces/default/flunders`]: {
        kind: "FlunderList",
        apiVersion: groupVersion,
        metadata: {},
        items: [flunder],
      },
      [`${apis}/namespaces/default/flunders/a`]: flunder,
    };
    if (path.startsWith("/openapi/v3/") && this.documentLocation !== undefined) {
      return void response.writeHead(301, { location: this.documentLocation }).end();
    }
    if (path.endsWith("/moved")) return void response.writeHead(302, { location: "https://127.0.0.1/" }).end();
    if (url.includes("watch=")) {
      response.writeHead(200, { "content-type": "application/json" });
      response.write(`${JSON.stringify({ type: "ADDED", object: flunder })}\n`);
      return;
    }
    if (method !== "GET") return reply(response, flunder, 201);
    reply(response, documents[path] ?? { kind: "Status", code: 404 }, documents[path] === undefined ? 404 : 200);
  }
}

const resource = {
  name: "flunders",
  singularName: "flunder",
  namespaced: true,
  kind: "Flunder",
  verbs: ["get", "list", "watch"],
};
const resourceList = {
  kind: "APIResourceList",
  apiVersion: "v1",
  groupVersion,
  resources: [resource, { ...resource, name: "flunders/status", verbs: ["update"] }],
};

const aggregated = {
  kind: "APIGroupDiscoveryList",
  apiVersion: "apidiscovery.k8s.io/v2",
  items: [
    {
      metadata: { name: group },
      versions: [{ version: "v1", resources: [{ resource: "fischers", scope: "Cluster", verbs: ["get"] }] }],
    },
  ],
};

function reply(response: ServerResponse, body: unknown, status: number): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
