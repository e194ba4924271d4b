import { anyObject, choice } from "@keelson/api-machinery/fields";
import { Type } from "typebox";

/** The names of gRPC's codes, by number. */
export const grpcCodes = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

/** Schema of the gRPC call of a load generator. */
export const grpcCall = Type.Object(
  {
    service: Type.String({
      description: "Full name of the service, such as shop.v1.Carts.",
      pattern: "^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*$",
      maxLength: 512,
    }),
    method: Type.String({ description: "Name of the method.", pattern: "^[A-Za-z_][A-Za-z0-9_]*$", maxLength: 256 }),
    message: Type.Optional(anyObject("The request message in the JSON of Protocol Buffers. Default: an empty message.")),
    descriptorSet: Type.Optional(
      Type.String({
        description:
          "A google.protobuf.FileDescriptorSet in base64 (protoc --include_imports -o). Default: the server is asked by reflection.",
        pattern: "^[A-Za-z0-9+/]+={0,2}$",
        maxLength: 98_304,
      }),
    ),
    expectedCodes: Type.Optional(
      Type.Array(choice(grpcCodes, "A gRPC code."), {
        description: "Codes of a successful call. Default: OK.",
        minItems: 1,
        maxItems: grpcCodes.length,
      }),
    ),
  },
  {
    description:
      "Calls this method instead of sending HTTP requests. url is the server's (http or https, without a path), and headers are the metadata.",
  },
);
