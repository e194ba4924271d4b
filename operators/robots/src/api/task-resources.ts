import { type Static, Type } from "typebox";
import { int32, int64, quantity } from "@keelson/api-machinery/fields";
import { DeviceRequest } from "./device.ts";

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
      reservedPorts: Type.Optional(ports("Ports with a fixed number, value.")),
      dynamicPorts: Type.Optional(ports("Ports whose number the robot chooses when the program starts.")),
    }),
    { description },
  );

/** Resources that a task requests from its robot. */
export const TaskResources = Type.Object(
  {
    cpu: Type.Optional(
      quantity(
        "CPU. A bare number is MHz, as in Nomad: a share for scheduling without a limit. With a unit it is cores, as in Kubernetes (500m is half a core, 2000m is two), and a limit.",
      ),
    ),
    memory: Type.Optional(
      quantity(
        "Memory. A bare number is MiB, as in Nomad. With a unit it is bytes, as in Kubernetes (64Mi). It is also a limit.",
      ),
    ),
    disk: Type.Optional(
      quantity(
        "Disk, in the units of memory. Counted when a robot is chosen, against the file system of its tasks. It is not a limit.",
      ),
    ),
    iops: Type.Optional(int64("Disk operations per second. Stored; it has no effect yet.")),
    networks: Type.Optional(networks("Networks. The program gets each port as K8S4R_PORT_<LABEL>; mbits has no effect.")),
    devices: Type.Optional(Type.Array(DeviceRequest, { description: "Devices.", maxItems: 16 })),
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
