import { type Static, Type } from "typebox";
import { int32, int64, quantity } from "@keelson/api-machinery/fields";

const ports = (description: string) =>
  Type.Array(
    Type.Object({
      label: Type.String({ description: "Label of the port." }),
      value: Type.Optional(int32("Port number.", { minimum: 0, maximum: 65535 })),
      to: Type.Optional(int32("Port number that it maps to.", { minimum: 0, maximum: 65535 })),
    }),
    { description },
  );

/** Networks that a task requests or was allocated. */
const networks = (description: string) =>
  Type.Array(
    Type.Object({
      mbits: Type.Optional(int32("Bandwidth in megabits per second.", { minimum: 0 })),
      reservedPorts: Type.Optional(ports("Ports with a fixed number.")),
      dynamicPorts: Type.Optional(ports("Ports whose number the robot chooses.")),
    }),
    { description },
  );

/** Resources that a task requests from its robot. */
export const TaskResources = Type.Object(
  {
    cpu: Type.Optional(quantity("CPU cores; 500m is half a core. Scheduling counts it against the robot's cores.")),
    memory: Type.Optional(quantity("Bytes of memory, such as 64Mi. Scheduling counts it against the robot's memory.")),
    disk: Type.Optional(quantity("Bytes of disk. Stored; it has no effect yet.")),
    iops: Type.Optional(int64("Disk operations per second. Stored; it has no effect yet.")),
    networks: Type.Optional(networks("Networks. Stored; they have no effect yet.")),
  },
  { description: "Resources that the task requests from its robot." },
);
export type TaskResources = Static<typeof TaskResources>;

/** Resources that a task was allocated. */
export const AllocatedResources = Type.Object(
  {
    cpu: Type.Optional(quantity("CPU cores.")),
    memory: Type.Optional(quantity("Bytes of memory.")),
    disk: Type.Optional(quantity("Bytes of disk.")),
    networks: Type.Optional(networks("Networks.")),
  },
  { description: "Resources that the task was allocated." },
);
