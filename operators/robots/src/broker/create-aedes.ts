import type { Logger } from "@keelson/controller";
import { Aedes, type AedesOptions } from "aedes";
import { disableNumberCache } from "../protocol/mqtt-packets.ts";
import { quote } from "./limited-log.ts";

/** Options of {@link createAedes}. */
export interface CreateAedesOptions
  extends Pick<AedesOptions, "authenticate" | "authorizePublish" | "authorizeSubscribe" | "authorizeForward"> {
  readonly log: Logger;
  /** Default: 10 s. */
  readonly readTimeoutMs: number | undefined;
}

/** Creates the MQTT library's broker, with limits for clients that are not trusted. */
export function createAedes({ log, readTimeoutMs = 10_000, ...handlers }: CreateAedesOptions): Aedes {
  disableNumberCache();
  const aedes = new Aedes({
    ...handlers,
    connectTimeout: 10_000,
    // A client without keep-alive could disappear unnoticed.
    keepaliveLimit: 600,
    maxTopicLevels: 8,
    // Messages to a client that does not read would keep the broker from delivering others.
    drainTimeout: readTimeoutMs,
    preConnect: (_, packet, done) => {
      // The broker would queue messages for a persistent session, including those of topics that the robot may not read.
      packet.clean = true;
      done(null, true);
    },
  });
  aedes.on("clientError", (client, error) => log.debug({ clientId: quote(client.id) }, `MQTT client: ${error.message}`));
  aedes.on("connectionError", (_, error) => log.debug({}, `MQTT connection: ${error.message}`));
  return aedes;
}
