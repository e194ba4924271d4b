import { Type } from "typebox";
import { choice, duration, int32 } from "@keelson/api-machinery/fields";

const Check = Type.Object({
  name: Type.Optional(Type.String({ description: "Name of the check. Default: that of the service." })),
  type: Type.Optional(
    choice(
      ["http", "tcp", "script", "grpc"],
      "http: a GET request, 2xx passes and 429 is a warning. tcp: a connection. script: a command alongside the program, 0 passes and 1 is a warning. grpc: the gRPC health checking protocol.",
    ),
  ),
  command: Type.Optional(Type.String({ description: "Program of a script check, run as the task's program is." })),
  args: Type.Optional(Type.Array(Type.String(), { description: "Arguments of a script check." })),
  path: Type.Optional(Type.String({ description: "Path of an http check. Default: /." })),
  protocol: Type.Optional(Type.String({ description: "http or https. The certificate is not verified." })),
  portLabel: Type.Optional(Type.String({ description: "Label of the port, or its number. Default: that of the service." })),
  interval: Type.Optional(duration("Time between two checks, at least 1s. Default: 10s.")),
  timeout: Type.Optional(duration("Time limit of one check, at least 1s. Default: 2s.")),
  initialStatus: Type.Optional(
    choice(
      ["critical", "warning", "passing"],
      "Status before the first check. Default: critical, the task is not healthy yet.",
    ),
  ),
  checkRestart: Type.Optional(
    Type.Object(
      {
        limit: int32("Number of failures in a row that restart the program.", { minimum: 1, maximum: 1000 }),
        grace: Type.Optional(
          duration("Time after the start of the program in which failures do not count.", { default: "1s" }),
        ),
        ignoreWarnings: Type.Optional(Type.Boolean({ description: "Whether warnings do not count as failures." })),
      },
      { description: "When failures restart the program, by restartPolicy. Default: never." },
    ),
  ),
});

/** A service that a task offers. */
export const Service = Type.Object(
  {
    name: Type.String({ description: "Name of the service.", minLength: 1 }),
    portLabel: Type.String({ description: "Label of the service's port in resources.networks, or its number." }),
    tags: Type.Optional(Type.Array(Type.String(), { description: "Tags of the service." })),
    checks: Type.Optional(Type.Array(Check, { description: "Health checks. The robot runs them; a task has at most 8." })),
  },
  {
    description: "A service that the task offers. Its checks decide about the health of the task; name and tags are for users.",
  },
);
