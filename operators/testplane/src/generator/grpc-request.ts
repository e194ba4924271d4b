import { constants } from "node:http2";
import {
  create,
  createFileRegistry,
  type DescMethod,
  type FileRegistry,
  fromJson,
  type JsonValue,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { grpcCodes } from "../api/grpc-call.ts";
import { describedFiles, reflectedFiles } from "./grpc-descriptors.ts";
import type { Http2Request } from "./http2-requester.ts";
import type { GrpcPlan, LoadPlan, RequestPlan } from "./load-plan.ts";

/** A gRPC method cannot be called. The message says why. */
class GrpcMethodError extends Error {
  override readonly name = "GrpcMethodError";
  readonly code = "GrpcMethod";
}

/**
 * The request that calls a plan's gRPC method. The message is encoded once, so that a call costs no more than any HTTP/2 request. Methods
 * with a stream of requests receive this one.
 *
 * **Errors**: {@link GrpcMethodError}.
 */
export async function grpcRequestOf({ request, timeoutMs }: LoadPlan, grpc: GrpcPlan): Promise<Http2Request> {
  const origin = new URL(request.url).origin;
  const { registry, method } = await methodOf(request, timeoutMs, grpc);
  const metadata = Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  return {
    origin,
    headers: {
      ...Object.fromEntries(metadata),
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: `/${grpc.service}/${grpc.method}`,
      [constants.HTTP2_HEADER_CONTENT_TYPE]: "application/grpc+proto",
      te: "trailers",
      "grpc-timeout": `${Math.min(Math.ceil(timeoutMs), 99_999_999)}m`,
    },
    body: framed(encoded(registry, method, grpc)),
    judge(fields, bytes) {
      const code = fields["grpc-status"];
      // A proxy or a server without gRPC answers with a status of HTTP.
      if (code === undefined)
        return { status: Number(fields[constants.HTTP2_HEADER_STATUS]), error: "NoGrpcStatus", bytes, isExpected: false };
      const name = (/^\d{1,2}$/.test(String(code)) ? grpcCodes[Number(code)] : undefined) ?? "UNKNOWN";
      return { status: name, bytes, isExpected: grpc.expectedCodes.includes(name) };
    },
  };
}

interface FoundMethod {
  readonly registry: FileRegistry;
  readonly method: DescMethod;
}

async function methodOf(
  { url, headers, insecureSkipTlsVerify }: RequestPlan,
  timeoutMs: number,
  { service, method, descriptorSet }: GrpcPlan,
): Promise<FoundMethod> {
  const origin = new URL(url).origin;
  const files = await (descriptorSet === undefined
    ? reflectedFiles({ origin, insecureSkipTlsVerify, timeoutMs, symbol: service, metadata: headers })
    : describedFiles(descriptorSet)
  ).catch((error: unknown) => {
    throw new GrpcMethodError(`descriptor of ${service}: ${messageOf(error)}`, { cause: error });
  });
  const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: [...files] }));
  const found = registry.getService(service);
  if (found === undefined) {
    const known = [...registry].flatMap((each) => (each.kind === "service" ? [each.typeName] : []));
    throw new GrpcMethodError(`service ${service} not found: must be one of ${known.join(", ")}`);
  }
  const { methods } = found;
  const called = methods.find(({ name }) => name === method);
  if (called !== undefined) return { registry, method: called };
  throw new GrpcMethodError(
    `method ${method} of ${service} not found: must be one of ${methods.map(({ name }) => name).join(", ")}`,
  );
}

function encoded(registry: FileRegistry, { input }: DescMethod, { message }: GrpcPlan): Uint8Array {
  try {
    return toBinary(input, fromJson(input, message as JsonValue, { registry }));
  } catch (error) {
    throw new GrpcMethodError(`message: ${messageOf(error)}`, { cause: error });
  }
}

/** A message with gRPC's prefix: not compressed, and its length. */
function framed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
