import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { ConnectError } from "@connectrpc/connect";
import { encodeEnvelope } from "@connectrpc/connect/protocol";
import { codeToHttpStatus, endStreamFlag, endStreamToJson, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";

/** A call as Node.js received it. */
export type CallRequest = IncomingMessage | Http2ServerRequest;
/** Its response. */
export type CallResponse = ServerResponse | Http2ServerResponse;

interface Rejection {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array;
}

/** The error in the protocol of the call. */
function rejectionOf(contentType: string, error: ConnectError): Rejection {
  if (/^application\/grpc\b/.test(contentType)) {
    // A response without messages has its status in the headers.
    const headers = new Headers({ "content-type": contentType });
    setTrailerStatus(headers, error);
    return { status: 200, headers, body: new Uint8Array() };
  }
  if (contentType.startsWith("application/connect+")) {
    const end = new TextEncoder().encode(JSON.stringify(endStreamToJson(new Headers(), error, undefined)));
    return { status: 200, headers: new Headers({ "content-type": contentType }), body: encodeEnvelope(endStreamFlag, end) };
  }
  const headers = new Headers({ "content-type": "application/json" });
  return { status: codeToHttpStatus(error.code), headers, body: errorToJsonBytes(error, undefined) };
}

/** Answers a call with an error, without keeping any of its body. */
export function rejectCall(request: CallRequest, response: CallResponse, error: ConnectError): void {
  const rejection = rejectionOf(request.headers["content-type"] ?? "", error);
  if ("stream" in request) respondOverHttp2(request, response as Http2ServerResponse, rejection);
  else {
    const { status, headers, body } = rejection;
    for (const [name, value] of headers) response.setHeader(name, value);
    response.statusCode = status;
    // No other request can follow on the connection.
    response.setHeader("connection", "close");
    (response as ServerResponse).end(body);
  }
  // The rest of the body is dropped: a reset could overtake the response.
  request.resume();
}

/** gRPC clients take headers for trailers only if they end the stream. An empty body would end it with a separate frame. */
function respondOverHttp2(
  { stream }: Http2ServerRequest,
  response: Http2ServerResponse,
  { status, headers, body }: Rejection,
): void {
  if (stream.destroyed || stream.headersSent || response.writableEnded) return;
  stream.respond({ ":status": status, ...Object.fromEntries(headers) }, { endStream: body.length === 0 });
  if (body.length > 0) stream.end(body);
}
