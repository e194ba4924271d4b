import { Http1Requester } from "./http1-requester.ts";
import { Http2Requester, http2RequestOf } from "./http2-requester.ts";
import type { LoadPlan } from "./load-plan.ts";
import type { Requester } from "./requester.ts";

/**
 * The requester of a plan's protocol. For gRPC, resolves when the method is known, without sending a request of the load.
 *
 * **Errors**: `GrpcMethodError` if the method cannot be found, or if the message does not fit its type.
 */
export async function createRequester(plan: LoadPlan): Promise<Requester> {
  const { grpc, protocol } = plan.request;
  if (grpc !== undefined) {
    const { grpcRequestOf } = await import("./grpc-request.ts");
    return new Http2Requester(plan, await grpcRequestOf(plan, grpc));
  }
  return protocol === "HTTP/2" ? new Http2Requester(plan, http2RequestOf(plan)) : new Http1Requester(plan);
}
