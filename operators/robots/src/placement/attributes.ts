import type { DeepReadonly } from "@keelson/api-machinery";
import type { DeviceInfo } from "../api/device-info.ts";

/**
 * Attributes of a robot that constraints reference as `${attr.NAME}` and templates as `attr "NAME"`. A constraint on an attribute that
 * the robot's agent does not report does not hold.
 */
export const attributes: Readonly<Record<string, (info: DeepReadonly<DeviceInfo> | undefined) => string | number | undefined>> =
  {
    "kernel.name": (info) => info?.platform?.os,
    "kernel.version": (info) => info?.platform?.kernelVersion,
    "kernel.arch": (info) => info?.platform?.kernelArch,
    "os.name": (info) => info?.platform?.platform,
    "os.family": (info) => info?.platform?.platformFamily,
    "os.version": (info) => info?.platform?.platformVersion,
    "cpu.arch": (info) => info?.platform?.arch,
    "cpu.numcores": (info) => info?.cpu?.logicalCores,
    "cpu.modelname": (info) => info?.cpu?.modelName,
    "cpu.vendor": (info) => info?.cpu?.vendor,
    "cpu.frequency": (info) => info?.cpu?.mhz,
    "memory.totalbytes": (info) => info?.memory?.total,
    "battery.percent": (info) => info?.battery?.percent,
    "battery.state": (info) => info?.battery?.state,
    "location.latitude": (info) => info?.location?.latitude,
    "location.longitude": (info) => info?.location?.longitude,
    "location.altitude": (info) => info?.location?.altitude,
    "location.name": (info) => info?.location?.name,
    "unique.network.ip-address": (info) =>
      info?.networkInterfaces?.flatMap(({ addresses }) => addresses ?? []).map((address) => address.split("/")[0])[0],
    "unique.hostname": (info) => info?.hostname,
  };
