import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";

/** The request of a review that a test webhook received. */
export type ReviewRequest = Readonly<Record<string, unknown>>;

/** Returns the fields of a response, except its uid; or raw text with a status. */
export type Respond = (
  request: ReviewRequest,
) => JsonObject | { readonly raw: string; readonly status?: number } | Promise<JsonObject | { readonly raw: string }>;

/** An HTTPS server of webhooks for tests. */
export interface TestWebhook extends AsyncDisposable {
  /** `https://127.0.0.1:<port>`. */
  readonly url: string;
  readonly port: number;
  /** The authority of its certificate, as in `caBundle`. */
  readonly caBundle: string;
  /** Received requests by path, oldest first. */
  requests(path: string): readonly ReviewRequest[];
  /** Sets the response of a path. */
  on(path: string, respond: Respond): void;
  /** Closes all connections. */
  disconnect(): void;
  stop(): Promise<void>;
}

const hourMs = 3_600_000;

/** Starts a server of webhooks. `hosts` are those of its certificate. */
export async function startTestWebhook(hosts: readonly string[] = ["127.0.0.1"]): Promise<TestWebhook> {
  const [notBefore, notAfter] = [new Date(Date.now() - hourMs), new Date(Date.now() + hourMs)];
  const authority = await createCertificateAuthority("test-webhook-ca", notBefore, notAfter);
  const request = { commonName: "test-webhook", usage: "server", hosts, notBefore, notAfter } as const;
  const { certificate, key } = await issueCertificate(authority, request);
  const handlers = new Map<string, Respond>();
  const received = new Map<string, ReviewRequest[]>();
  const server: Server = createServer({ cert: certificate, key }, (incoming, response) => {
    const path = new URL(incoming.url ?? "/", "https://test").pathname;
    const serve = async (): Promise<void> => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
      const review = JSON.parse(Buffer.concat(chunks).toString()) as JsonObject;
      const sent = isJsonObject(review["request"]) ? review["request"] : {};
      received.set(path, [...(received.get(path) ?? []), sent]);
      const result = (await handlers.get(path)?.(sent)) ?? { allowed: true };
      if ("raw" in result && typeof result.raw === "string") {
        response.writeHead("status" in result && typeof result.status === "number" ? result.status : 200);
        response.end(result.raw);
        return;
      }
      const { kind, apiVersion } = review;
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ kind, apiVersion, response: { uid: sent["uid"], ...result } }));
    };
    serve().catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return {
    url: `https://127.0.0.1:${port}`,
    port,
    caBundle: Buffer.from(authority.certificate).toString("base64"),
    requests: (path) => received.get(path) ?? [],
    disconnect: () => server.closeAllConnections(),
    on: (path, respond) => void handlers.set(path, respond),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** A response with a JSON Patch. */
export function patchResponse(patch: readonly JsonObject[]): JsonObject {
  return { allowed: true, patchType: "JSONPatch", patch: Buffer.from(JSON.stringify(patch)).toString("base64") };
}
