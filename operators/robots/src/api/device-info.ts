import { type Static, Type } from "typebox";
import { time } from "@keelson/api-machinery/fields";
import { maxDevices, RobotDevice } from "./device.ts";

const text = (description: string) => Type.Optional(Type.String({ description }));
const whole = (description: string) => Type.Optional(Type.Integer({ format: "int64", description }));
const real = (description: string) => Type.Optional(Type.Number({ description }));

/** What a robot's agent reports about its computer. */
export const DeviceInfo = Type.Object(
  {
    hostname: text("Host name."),
    platform: Type.Optional(
      Type.Object(
        {
          os: text("Operating system, such as linux or darwin."),
          arch: text("Architecture by its Go name, such as amd64 or arm64."),
          platform: text("Distribution, such as debian."),
          platformFamily: text("Distribution family."),
          platformVersion: text("Distribution version."),
          kernelVersion: text("Kernel version."),
          kernelArch: text("Architecture by its kernel name, such as x86_64."),
        },
        { description: "Operating system." },
      ),
    ),
    cpu: Type.Optional(
      Type.Object(
        {
          physicalCores: whole("Number of cores."),
          logicalCores: whole("Number of hardware threads. CPU requests of tasks are counted against it."),
          modelName: text("Model name."),
          vendor: text("Vendor."),
          mhz: real("Clock rate in MHz."),
          usagePercent: real("Utilisation in percent."),
          perCpuUsage: Type.Optional(Type.Array(Type.Number(), { description: "Utilisation of each core in percent." })),
        },
        { description: "Processor." },
      ),
    ),
    memory: Type.Optional(
      Type.Object(
        {
          total: whole("Total bytes. Memory requests of tasks are counted against it."),
          available: whole("Bytes available to programs."),
          used: whole("Bytes in use."),
          free: whole("Unused bytes."),
          usagePercent: real("Bytes in use, in percent of the total."),
          buffers: whole("Bytes of buffers."),
          cached: whole("Bytes of cache."),
        },
        { description: "Memory." },
      ),
    ),
    swap: Type.Optional(
      Type.Object(
        {
          total: whole("Total bytes."),
          used: whole("Bytes in use."),
          free: whole("Bytes free."),
          usagePercent: real("Bytes in use, in percent of the total."),
        },
        { description: "Swap." },
      ),
    ),
    disks: Type.Optional(
      Type.Array(
        Type.Object({
          device: text("Device."),
          mountPoint: text("Mount point."),
          fsType: text("File system type."),
          total: whole("Total bytes."),
          used: whole("Bytes in use."),
          free: whole("Bytes free."),
          usagePercent: real("Bytes in use, in percent of the total."),
          inodesTotal: whole("Inodes."),
          inodesUsed: whole("Inodes in use."),
          inodesFree: whole("Inodes free."),
        }),
        { description: "Disks." },
      ),
    ),
    networkInterfaces: Type.Optional(
      Type.Array(
        Type.Object({
          name: text("Name."),
          hardwareAddr: text("Hardware address."),
          addresses: Type.Optional(Type.Array(Type.String(), { description: "Addresses." })),
          mtu: whole("Maximum transmission unit in bytes."),
          flags: Type.Optional(Type.Array(Type.String(), { description: "Flags." })),
          bytesSent: whole("Bytes sent."),
          bytesRecv: whole("Bytes received."),
          packetsSent: whole("Packets sent."),
          packetsRecv: whole("Packets received."),
          errin: whole("Receive errors."),
          errout: whole("Send errors."),
          dropin: whole("Incoming packets dropped."),
          dropout: whole("Outgoing packets dropped."),
        }),
        { description: "Network interfaces." },
      ),
    ),
    devices: Type.Optional(
      Type.Array(RobotDevice, {
        description: "Devices that the robot's policy offers to tasks.",
        maxItems: maxDevices,
        "x-kubernetes-list-type": "atomic",
      }),
    ),
    battery: Type.Optional(
      Type.Object(
        {
          percent: real("Charge in percent; with several batteries, the lowest."),
          state: text("State by its kernel name in lower case, such as charging, discharging or full."),
        },
        { description: "Battery." },
      ),
    ),
    location: Type.Optional(
      Type.Object(
        {
          latitude: real("Latitude in degrees."),
          longitude: real("Longitude in degrees."),
          altitude: real("Altitude in metres."),
          name: text("Name of the place."),
        },
        { description: "Location, from the file that the robot's policy names." },
      ),
    ),
    bootTime: whole("Boot time in seconds since the epoch."),
    uptime: whole("Uptime in seconds."),
    lastUpdated: Type.Optional(time("Time of the measurement, by the robot's clock.")),
  },
  {
    description: "The robot's computer, as its agent reports it. It is as recent as lastHeartbeatTime.",
  },
);
export type DeviceInfo = Static<typeof DeviceInfo>;
