import { createHash, createHmac, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Credentials that the server accepts. */
export const s3Credentials = { accessKeyId: "AKIATEST", secretAccessKey: "test-secret" } as const;

/**
 * An S3 service in memory with the operations that backups use. It verifies the AWS Signature Version 4 of every request, and the checksum of
 * its body if it is signed. It does not replace a test against a real service.
 */
export class S3Server implements AsyncDisposable {
  readonly objects = new Map<string, Buffer>();
  readonly uploads = new Map<string, Map<number, Buffer>>();
  readonly #server: Server;
  /** Fails the request with this method and key, if it returns true. */
  fails: (method: string, key: string) => boolean = () => false;
  /** Whether the bucket exists. */
  hasBucket = true;
  /** How the completion of an upload fails with status 200: it sends an error, or stores less than it received. */
  completion: "succeeds" | "sendsError" | "truncates" = "succeeds";

  private constructor() {
    this.#server = createServer((request, response) => {
      void this.#serve(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
    });
  }

  static async start(): Promise<S3Server> {
    const server = new S3Server();
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const url = new URL(request.url ?? "", this.endpoint);
    const method = request.method ?? "";
    const [, , ...rest] = decodeURIComponent(url.pathname).split("/");
    const key = rest.join("/");
    if (!isSigned(request, url, body)) return respond(response, 403, error("SignatureDoesNotMatch"));
    if (!this.hasBucket) return respond(response, 404, error("NoSuchBucket"));
    if (this.fails(method, key)) return respond(response, 500, error("InternalError"));
    const { searchParams: query } = url;
    const uploadId = query.get("uploadId");
    if (query.has("uploads")) {
      const id = randomUUID();
      this.uploads.set(id, new Map());
      respond(response, 200, `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`);
    } else if (uploadId !== null) this.#upload(method, key, uploadId, { query, body, response });
    else if (method === "PUT") {
      this.objects.set(key, body);
      response.writeHead(200, { etag: etagOf(body) }).end();
    } else if (method === "DELETE") {
      this.objects.delete(key);
      response.writeHead(204).end();
    } else if (query.get("list-type") === "2") respond(response, 200, this.#list(query.get("prefix") ?? ""));
    else {
      const object = this.objects.get(key);
      if (object === undefined) respond(response, 404, error("NoSuchKey"));
      else response.writeHead(200, { "content-length": object.length, etag: etagOf(object) }).end(object);
    }
  }

  #upload(
    method: string,
    key: string,
    id: string,
    { query, body, response }: { query: URLSearchParams; body: Buffer; response: ServerResponse },
  ): void {
    const parts = this.uploads.get(id);
    if (parts === undefined) return respond(response, 404, error("NoSuchUpload"));
    if (method === "PUT") {
      parts.set(Number(query.get("partNumber")), body);
      response.writeHead(200, { etag: etagOf(body) }).end();
      return;
    }
    this.uploads.delete(id);
    if (method === "DELETE") return void response.writeHead(204).end();
    if (this.completion === "sendsError") return respond(response, 200, error("InternalError"));
    const received = Buffer.concat([...parts].sort(([a], [b]) => a - b).map(([, part]) => part));
    const whole = this.completion === "truncates" ? received.subarray(1) : received;
    this.objects.set(key, whole);
    const result = `<ETag>${etagOf(whole).replaceAll('"', "&quot;")}</ETag><Key>${key}</Key>`;
    respond(response, 200, `<CompleteMultipartUploadResult>${result}</CompleteMultipartUploadResult>`);
  }

  #list(prefix: string): string {
    const contents = [...this.objects]
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, { length }]) => `<Contents><Key>${key}</Key><Size>${length}</Size></Contents>`);
    return `<ListBucketResult><IsTruncated>false</IsTruncated>${contents.join("")}</ListBucketResult>`;
  }
}

const error = (code: string): string => `<Error><Code>${code}</Code><Message>${code}</Message></Error>`;
const etagOf = (bytes: Buffer): string => `"${createHash("md5").update(bytes).digest("hex")}"`;

function respond(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { "content-type": "application/xml" }).end(`<?xml version="1.0" encoding="UTF-8"?>${text}`);
}

const sha256 = (text: string | Buffer): string => createHash("sha256").update(text).digest("hex");
const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest();

/** Verifies AWS Signature Version 4 as AWS documents it, independently of the client. */
function isSigned(request: IncomingMessage, url: URL, body: Buffer): boolean {
  const { headers } = request;
  const match = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
    headers.authorization ?? "",
  );
  if (match === null || match[1] !== s3Credentials.accessKeyId) return false;
  const [, , scope = "", signedHeaders = "", signature] = match;
  const content = String(headers["x-amz-content-sha256"]);
  if (content !== "UNSIGNED-PAYLOAD" && content !== sha256(body)) return false;
  const names = signedHeaders.split(";");
  if (!names.includes("host")) return false;
  const query = [...url.searchParams]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join("&");
  const canonical = [
    request.method,
    url.pathname,
    query,
    ...names.map((name) => `${name}:${String(headers[name]).trim()}`),
    "",
    signedHeaders,
    content,
  ].join("\n");
  const [date = "", region = "", service = ""] = scope.split("/");
  const text = ["AWS4-HMAC-SHA256", String(headers["x-amz-date"]), scope, sha256(canonical)].join("\n");
  const secret = hmac(hmac(hmac(hmac(`AWS4${s3Credentials.secretAccessKey}`, date), region), service), "aws4_request");
  return hmac(secret, text).toString("hex") === signature;
}

const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`);
