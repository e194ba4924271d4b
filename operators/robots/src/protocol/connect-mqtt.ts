import mqtt, { type IClientOptions, type MqttClient } from "mqtt";
import { disableNumberCache } from "./mqtt-packets.ts";

/** Protocols of MQTT.js that Node.js supports. */
const protocols = ["mqtt", "mqtts", "tcp", "ssl", "ws", "wss"] as const;

/**
 * `mqtt.connect`, without the deprecation warning of Node.js 24: MQTT.js parses a URL by `url.parse()`. A user name and a password in the
 * URL take precedence over those of `options`.
 *
 * **Errors**: throws a `TypeError` if the URL is invalid or has another protocol than `mqtt`, `mqtts`, `tcp`, `ssl`, `ws` and `wss`.
 */
export function connectMqtt(url: string, options: IClientOptions): MqttClient {
  disableNumberCache();
  return mqtt.connect({ ...options, ...mqttAddress(url) });
}

/** The options of MQTT.js that a URL stands for. */
export function mqttAddress(url: string): IClientOptions {
  const { protocol: scheme, hostname, port, username, password, pathname, search } = new URL(url);
  const protocol = protocols.find((each) => scheme === `${each}:`);
  if (protocol === undefined) throw new TypeError(`unsupported protocol ${scheme}//: must be one of ${protocols.join(", ")}`);
  return {
    protocol,
    // Sockets take an IPv6 address without its brackets.
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    ...(port === "" ? {} : { port: Number(port) }),
    ...(protocol.startsWith("ws") ? { path: pathname + search } : {}),
    ...(username === "" ? {} : { username: decodeURIComponent(username) }),
    ...(password === "" ? {} : { password: decodeURIComponent(password) }),
  };
}
