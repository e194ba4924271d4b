import { choice, duration, int32, listMap } from "@keelson/api-machinery/fields";
import { typedSchema } from "@keelson/api-machinery/schema";
import { Type, type Static } from "typebox";

const headers = Type.Array(
  Type.Object({
    name: Type.String({ description: "Name of the header.", minLength: 1, maxLength: 256 }),
    value: Type.String({ description: "Value of the header.", maxLength: 8192 }),
  }),
  { ...listMap("name", "Headers of the request."), maxItems: 100 },
);

const request = {
  method: Type.Optional(
    choice(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], "Method of the request. Default: GET."),
  ),
  headers: Type.Optional(headers),
  body: Type.Optional(Type.String({ description: "Body of the request.", maxLength: 65_536 })),
  expectedStatusCodes: Type.Optional(
    Type.Array(int32("An HTTP status code.", { minimum: 100, maximum: 599 }), {
      description:
        "Status codes of a successful response. Default: 200 to 399, or any if the step has expectations. GET and HEAD are repeated every second until the response has one of them.",
      minItems: 1,
      maxItems: 100,
    }),
  ),
  requestTimeout: Type.Optional(duration("Maximum duration of one request. Default: 10s.")),
};

const podSelection = {
  pod: Type.Optional(Type.String({ description: "Name of the Pod.", minLength: 1, maxLength: 253 })),
  labelSelector: Type.Optional(
    typedSchema<Record<string, string>>({
      type: "object",
      additionalProperties: { type: "string" },
      description: "Labels of the Pod. The first running Pod with these labels, by name, is chosen.",
    }),
  ),
};

const container = Type.Optional(
  Type.String({ description: "Name of the container. Default: the first one of the Pod.", minLength: 1, maxLength: 63 }),
);

/** Actions that a program of the Keelson image performs in a Pod of the test's namespace. */
export const toolActions = {
  http: Type.Optional(
    Type.Object(
      {
        url: Type.String({ description: "An http or https URL. Redirects are not followed.", minLength: 1, maxLength: 8192 }),
        ...request,
        insecureSkipTlsVerify: Type.Optional(Type.Boolean({ description: "Accepts any certificate of the server." })),
      },
      {
        description:
          "Sends an HTTP request from a Pod without credentials. Checks and outputs read result.statusCode, result.headers, result.stdout (the last 16 KiB of the body), result.truncated and result.json (the parsed body, or null if it was truncated or is not JSON).",
      },
    ),
  ),
  logs: Type.Optional(
    Type.Object(
      {
        ...podSelection,
        container,
        previous: Type.Optional(Type.Boolean({ description: "Reads the log before the last restart of the container." })),
        tailLines: Type.Optional(int32("Number of lines from the end to start with. Default: all.", { minimum: 0 })),
        contains: Type.Optional(
          Type.String({
            description: "Regular expression (RE2). Follows the log until a line matches, at most until the step times out.",
            minLength: 1,
            maxLength: 1024,
          }),
        ),
      },
      { description: "Reads the log of a container. Checks and outputs read result.stdout, its last 16 KiB." },
    ),
  ),
  exec: Type.Optional(
    Type.Object(
      {
        ...podSelection,
        container,
        command: Type.Array(Type.String(), { description: "The program and its arguments.", minItems: 1, maxItems: 100 }),
        stdin: Type.Optional(Type.String({ description: "Standard input of the program.", maxLength: 65_536 })),
      },
      {
        description:
          "Runs a program once in a running container. Checks and outputs read result.exitCode, result.stdout and result.stderr.",
      },
    ),
  ),
  portForward: Type.Optional(
    Type.Object(
      {
        ...podSelection,
        port: int32("Port of the Pod.", { minimum: 1, maximum: 65_535 }),
        http: Type.Optional(
          Type.Object(
            { path: Type.Optional(Type.String({ description: "Path and query. Default: /.", maxLength: 8192 })), ...request },
            { description: "An HTTP request to send through the port." },
          ),
        ),
        send: Type.Optional(
          Type.String({ description: "Text to send through the port instead of an HTTP request.", maxLength: 65_536 }),
        ),
        until: Type.Optional(
          Type.String({
            description:
              "Regular expression (RE2) that ends the response to `send`. Default: the response ends with the connection.",
            minLength: 1,
            maxLength: 1024,
          }),
        ),
      },
      {
        description:
          "Sends a request to a port of a Pod through the API server. Checks and outputs read result.stdout (the last 16 KiB of the response) and result.truncated, and after an HTTP request also result.statusCode, result.headers and result.json (null if the body was truncated or is not JSON).",
      },
    ),
  ),
};

const actions = Type.Object(toolActions);
type Actions = Static<typeof actions>;

/** Which Pod an action is about: by name or by labels. */
export interface PodSelection {
  readonly pod?: string;
  readonly labelSelector?: Readonly<Record<string, string>>;
}
/** Sends an HTTP request. */
export type HttpAction = NonNullable<Actions["http"]>;
/** Reads the log of a container. */
export type LogsAction = NonNullable<Actions["logs"]>;
/** Runs a program in a container. */
export type ExecAction = NonNullable<Actions["exec"]>;
/** Sends a request to a port of a Pod. */
export type PortForwardAction = NonNullable<Actions["portForward"]>;

/** Names of the actions. */
export const toolNames = ["http", "logs", "exec", "portForward"] as const satisfies readonly (keyof Actions)[];
