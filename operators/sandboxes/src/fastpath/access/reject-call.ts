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
  const { status, headers, body } = rejectionOf(request.headers["content-type"] ?? "", error);
  for (const [name, value] of headers) response.setHeader(name, value);
  response.statusCode = status;
  if ("stream" in request) (response as Http2ServerResponse).end(body);
  else {
    // No other request can follow on the connection.
    response.setHeader("connection", "close");
    (response as ServerResponse).end(body);
  }
  // The rest of the body is dropped: a reset could overtake the response.
  request.resume();
}
