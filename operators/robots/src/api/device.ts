import type { DeepReadonly } from "@keelson/api-machinery";
import { type Static, Type } from "typebox";
import { int32, stringMap } from "@keelson/api-machinery/fields";
import { Constraint } from "./constraint.ts";

/** Maximum number of devices that a robot reports, and that a task gets. */
export const maxDevices = 64;

const name = (description: string) =>
  Type.String({
    description,
    maxLength: 191,
    pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}(/[A-Za-z0-9][A-Za-z0-9._-]{0,62}){0,2}$",
  });

/** Path of a device. */
const path = Type.String({ description: "Path of the device on the robot.", pattern: "^/dev/[!-~]+$", maxLength: 255 });

/** Devices that a task requests from its robot. */
export const DeviceRequest = Type.Object(
  {
    name: name("Name of the devices: TYPE, VENDOR/TYPE or VENDOR/TYPE/MODEL."),
    count: Type.Optional(int32("Number of devices.", { minimum: 1, maximum: maxDevices, default: 1 })),
    constraints: Type.Optional(
      Type.Array(Constraint, {
        description:
          "Requirements on each device. ${device.id}, ${device.vendor}, ${device.type}, ${device.model} and ${device.attr.NAME} are replaced by its values.",
        maxItems: 16,
      }),
    ),
  },
  { description: "Devices of the robot, which the task does not share unless the robot's policy permits it." },
);
export type DeviceRequest = Static<typeof DeviceRequest>;

/** Devices that a task got for one of its requests. */
const AssignedDevice = Type.Object({
  name: name("Name of the request."),
  ids: Type.Array(path, { description: "Paths of the devices on the robot.", maxItems: maxDevices }),
});
type AssignedDevice = DeepReadonly<Static<typeof AssignedDevice>>;
/** The devices that a task got, in the order of its requests. */
export type AssignedDevices = readonly AssignedDevice[];

/** Schema of {@link AssignedDevices}. */
export const assignedDevices = (description: string) =>
  Type.Array(AssignedDevice, { description, maxItems: maxDevices, "x-kubernetes-list-type": "atomic" });

/** A device of a robot. */
export const RobotDevice = Type.Object({
  id: path,
  name: name("Name: TYPE, VENDOR/TYPE or VENDOR/TYPE/MODEL."),
  shares: Type.Optional(int32("Number of tasks that can have the device at the same time. Default 1.", { minimum: 1 })),
  attributes: Type.Optional(stringMap("Attributes that constraints of requests can refer to.")),
});
export type RobotDevice = Static<typeof RobotDevice>;
