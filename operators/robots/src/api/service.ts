import { Type } from "typebox";
import { choice, duration } from "@keelson/api-machinery/fields";

const Check = Type.Object({
  name: Type.Optional(Type.String({ description: "Name of the check." })),
  type: Type.Optional(choice(["http", "tcp", "script", "grpc"], "What is tried.")),
  command: Type.Optional(Type.String({ description: "Program of a script check." })),
  args: Type.Optional(Type.Array(Type.String(), { description: "Its arguments." })),
  path: Type.Optional(Type.String({ description: "Path of an http check." })),
  protocol: Type.Optional(Type.String({ description: "http or https." })),
  portLabel: Type.Optional(Type.String({ description: "Port, by name." })),
  interval: Type.Optional(duration("How often.")),
  timeout: Type.Optional(duration("How long one try may take.")),
  initialStatus: Type.Optional(choice(["critical", "warning", "passing"], "What holds before the first try.")),
});

/** A service that a task offers. */
export const Service = Type.Object(
  {
    name: Type.String({ description: "Name of the service.", minLength: 1 }),
    portLabel: Type.String({ description: "Its port, by name." }),
    tags: Type.Optional(Type.Array(Type.String(), { description: "Words to find it by." })),
    checks: Type.Optional(Type.Array(Check, { description: "How to see that it works." })),
  },
  { description: "A service that the task offers. Kept for manifests of K8s4r: nothing acts on it yet." },
);
