import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { isJsonObject } from "@keelson/api-machinery";
import type { DeviceInfo } from "../../api/device-info.ts";

const maxBytes = 4096;

/**
 * Reads the location of a robot from a file that a program on the robot updates: a JSON object with any of `latitude`, `longitude`, `altitude`
 * (numbers) and `name`. Returns undefined if the file does not exist or contains no valid field.
 */
export function readLocation(path: string): DeviceInfo["location"] {
  let value: unknown;
  try {
    value = JSON.parse(readStart(path));
  } catch {
    return undefined;
  }
  if (!isJsonObject(value)) return undefined;
  const [latitude, longitude] = [numberIn(value.latitude, 90), numberIn(value.longitude, 180)];
  const altitude = numberIn(value.altitude, 1e6);
  const { name } = value;
  const location = {
    ...(latitude !== undefined && { latitude }),
    ...(longitude !== undefined && { longitude }),
    ...(altitude !== undefined && { altitude }),
    ...(typeof name === "string" && name !== "" && { name: name.slice(0, 253) }),
  };
  return Object.keys(location).length === 0 ? undefined : location;
}

const numberIn = (value: unknown, limit: number): number | undefined =>
  typeof value === "number" && Math.abs(value) <= limit ? value : undefined;

function readStart(path: string): string {
  // A program that may write the file could replace it with a FIFO, whose open and read wait for a writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!fstatSync(file).isFile()) return "";
    const buffer = Buffer.alloc(maxBytes);
    return buffer.toString("utf8", 0, readSync(file, buffer));
  } finally {
    closeSync(file);
  }
}
