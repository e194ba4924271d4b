import { Type } from "typebox";
import { choice, duration } from "@keelson/api-machinery/fields";

const Check = Type.Object({
  name: Type.Optional(Type.String({ description: "Name of the check." })),
  type: Type.Optional(choice(["http", "tcp", "script", "grpc"], "Type of the check.")),
  command: Type.Optional(Type.String({ description: "Program of a script check." })),
  args: Type.Optional(Type.Array(Type.String(), { description: "Arguments of a script check." })),
  path: Type.Optional(Type.String({ description: "Path of an http check." })),
  protocol: Type.Optional(Type.String({ description: "http or https." })),
  portLabel: Type.Optional(Type.String({ description: "Label of the port." })),
  interval: Type.Optional(duration("Time between two checks.")),
  timeout: Type.Optional(duration("Time limit of one check.")),
  initialStatus: Type.Optional(choice(["critical", "warning", "passing"], "Status before the first check.")),
});

/** A service that a task offers. */
export const Service = Type.Object(
  {
    name: Type.String({ description: "Name of the service.", minLength: 1 }),
    portLabel: Type.String({ description: "Label of the service's port." }),
    tags: Type.Optional(Type.Array(Type.String(), { description: "Tags of the service." })),
    checks: Type.Optional(Type.Array(Check, { description: "Health checks." })),
  },
  { description: "A service that the task offers. Accepted for compatibility with K8s4r; it has no effect yet." },
);
