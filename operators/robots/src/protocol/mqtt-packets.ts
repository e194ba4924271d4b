import { writeToStream } from "mqtt-packet";

/**
 * Keeps the MQTT libraries from creating a buffer for each 16-bit number with the first packet that they write, which takes 9 MB in every
 * process. Call it before a broker or a client is created.
 */
export function disableNumberCache(): void {
  writeToStream.cacheNumbers = false;
}
