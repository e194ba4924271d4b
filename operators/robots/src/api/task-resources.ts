import { type Static, Type } from "typebox";
import { int32, int64, quantity } from "@keelson/api-machinery/fields";

const ports = (description: string) =>
  Type.Array(
    Type.Object({
      label: Type.String({ description: "Name of the port." }),
      value: Type.Optional(int32("The port.", { minimum: 0, maximum: 65535 })),
      to: Type.Optional(int32("The port that it leads to.", { minimum: 0, maximum: 65535 })),
    }),
    { description },
  );

/** Networks that a task needs or has. */
const networks = (description: string) =>
  Type.Array(
    Type.Object({
      mbits: Type.Optional(int32("Bandwidth in megabits a second.", { minimum: 0 })),
      reservedPorts: Type.Optional(ports("Ports with a number of one's own.")),
      dynamicPorts: Type.Optional(ports("Ports whose number the robot chooses.")),
    }),
    { description },
  );

/** What a task needs of its robot. */
export const TaskResources = Type.Object(
  {
    cpu: Type.Optional(quantity("Processor cores: 500m is half of one. A robot is chosen that has them left.")),
    memory: Type.Optional(quantity("Bytes of memory: 64Mi. A robot is chosen that has them left.")),
    disk: Type.Optional(quantity("Bytes on disk.")),
    iops: Type.Optional(int64("Operations a second on disk.")),
    networks: Type.Optional(networks("Networks.")),
  },
  { description: "What the task needs of its robot." },
);
export type TaskResources = Static<typeof TaskResources>;

/** What a task was given. */
export const AllocatedResources = Type.Object(
  {
    cpu: Type.Optional(quantity("Processor cores.")),
    memory: Type.Optional(quantity("Bytes of memory.")),
    disk: Type.Optional(quantity("Bytes on disk.")),
    networks: Type.Optional(networks("Networks.")),
  },
  { description: "What the task was given." },
);
