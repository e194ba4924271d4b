import { choice, duration, int32, listMap } from "@keelson/api-machinery/fields";
import { Type, type Static } from "typebox";
import { grpcCall } from "./grpc-call.ts";

const Stage = Type.Object({
  duration: duration("Length of the stage."),
  rate: Type.Optional(
    Type.Number({ description: "Requests per second at the end of the stage.", minimum: 0, maximum: 1_000_000 }),
  ),
  users: Type.Optional(int32("Users at the end of the stage.", { minimum: 0, maximum: 10_000 })),
});

/** Schema of a {@link LoadGenerator}. */
export const loadGenerator = Type.Object(
  {
    url: Type.String({
      description: "URL of the requests. ${{ values.NAME }} is a value of envInjection, including in headers and body.",
      minLength: 1,
      maxLength: 4096,
    }),
    method: Type.Optional(
      choice(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], "Method of the requests. Default: GET."),
    ),
    headers: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the header.", pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$" }),
          value: Type.String({ description: "Value of the header.", maxLength: 8192 }),
        }),
        { ...listMap("name", "Headers of the requests."), maxItems: 50 },
      ),
    ),
    body: Type.Optional(Type.String({ description: "Body of the requests.", maxLength: 65_536 })),
    protocol: Type.Optional(
      choice(["HTTP/1.1", "HTTP/2"], "Protocol. Default: HTTP/1.1. HTTP/2 to an http URL has no upgrade."),
    ),
    grpc: Type.Optional(grpcCall),
    insecureSkipTLSVerify: Type.Optional(Type.Boolean({ description: "Accepts any certificate of the target." })),
    expectedStatusCodes: Type.Optional(
      Type.Array(int32("An HTTP status.", { minimum: 100, maximum: 599 }), {
        description: "Statuses of a successful response. Default: 200 to 399.",
        maxItems: 50,
      }),
    ),
    requestTimeout: Type.Optional(duration("Maximum duration of a request. Default: 10s.")),
    rate: Type.Optional(
      Type.Number({
        description:
          "Open model: requests per second, whatever the target does. With stages: the rate at the start, by default 0.",
        minimum: 0,
        maximum: 1_000_000,
      }),
    ),
    users: Type.Optional(
      int32(
        "Closed model: users that send a request, wait for the response, and repeat. With stages: the users at the start, by default 0.",
        { minimum: 0, maximum: 10_000 },
      ),
    ),
    duration: Type.Optional(duration("How long the load runs. Required without stages.")),
    stages: Type.Optional(
      Type.Array(Stage, { description: "Periods in which rate or users change linearly.", minItems: 1, maxItems: 100 }),
    ),
    thinkTime: Type.Optional(duration("Pause of a user after a response. Default: none.")),
    maxConnections: Type.Optional(
      int32(
        "Maximum connections of a worker. Default: the users of the worker, 100 (open model), or 4 for HTTP/2 (more if a worker has over 400 users).",
        {
          minimum: 1,
          maximum: 10_000,
        },
      ),
    ),
    workers: Type.Optional(
      int32("Number of Pods that share the load. A worker uses one core. Default: 1.", { minimum: 1, maximum: 16 }),
    ),
  },
  {
    description:
      "The built-in load generator. Its Pods have no API credentials. Latencies of the open model count from the time at which a request is due, so that a slow target cannot hide behind requests that were not sent.",
  },
);
/** A built-in load generator. */
export type LoadGenerator = Static<typeof loadGenerator>;
