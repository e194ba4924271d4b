import { type Static, Type } from "typebox";
import { time } from "@keelson/api-machinery/fields";

const text = (description: string) => Type.Optional(Type.String({ description }));
const whole = (description: string) => Type.Optional(Type.Integer({ format: "int64", description }));
const real = (description: string) => Type.Optional(Type.Number({ description }));

/** What a robot says about the computer in it. */
export const DeviceInfo = Type.Object(
  {
    hostname: text("Name of the computer."),
    platform: Type.Optional(
      Type.Object(
        {
          os: text("linux, darwin ..."),
          arch: text("amd64, arm64 ..."),
          platform: text("The distribution: debian."),
          platformFamily: text("The family that it is of."),
          platformVersion: text("Its version."),
          kernelVersion: text("Version of the kernel."),
          kernelArch: text("What the kernel calls the architecture."),
        },
        { description: "Operating system." },
      ),
    ),
    cpu: Type.Optional(
      Type.Object(
        {
          physicalCores: whole("Cores."),
          logicalCores: whole("Threads that run at once: what tasks' cpu is counted against."),
          modelName: text("Model."),
          vendor: text("Maker."),
          mhz: real("Clock in MHz."),
          usagePercent: real("How busy it is."),
          perCpuUsage: Type.Optional(Type.Array(Type.Number(), { description: "How busy each core is." })),
        },
        { description: "Processor." },
      ),
    ),
    memory: Type.Optional(
      Type.Object(
        {
          total: whole("Bytes: what tasks' memory is counted against."),
          available: whole("Bytes that programs can have."),
          used: whole("Bytes in use."),
          free: whole("Bytes not in use for anything."),
          usagePercent: real("Share in use."),
          buffers: whole("Bytes of buffers."),
          cached: whole("Bytes of cache."),
        },
        { description: "Memory." },
      ),
    ),
    swap: Type.Optional(
      Type.Object(
        {
          total: whole("Bytes."),
          used: whole("Bytes in use."),
          free: whole("Bytes free."),
          usagePercent: real("Share in use."),
        },
        { description: "Swap." },
      ),
    ),
    disks: Type.Optional(
      Type.Array(
        Type.Object({
          device: text("Device."),
          mountPoint: text("Where it is mounted."),
          fsType: text("File system."),
          total: whole("Bytes."),
          used: whole("Bytes in use."),
          free: whole("Bytes free."),
          usagePercent: real("Share in use."),
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
          mtu: whole("Largest packet."),
          flags: Type.Optional(Type.Array(Type.String(), { description: "Flags." })),
          bytesSent: whole("Bytes sent."),
          bytesRecv: whole("Bytes received."),
          packetsSent: whole("Packets sent."),
          packetsRecv: whole("Packets received."),
          errin: whole("Errors on receiving."),
          errout: whole("Errors on sending."),
          dropin: whole("Received packets dropped."),
          dropout: whole("Packets to send dropped."),
        }),
        { description: "Network interfaces." },
      ),
    ),
    bootTime: whole("When the computer started, in seconds since 1970."),
    uptime: whole("For how long it has run, in seconds."),
    lastUpdated: Type.Optional(time("When this was measured, by the robot's clock.")),
  },
  { description: "The computer in the robot. Written anew when the machine changes, not with every measurement." },
);
export type DeviceInfo = Static<typeof DeviceInfo>;
