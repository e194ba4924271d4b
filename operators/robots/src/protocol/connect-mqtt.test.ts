import { expect, test } from "vitest";
import { mqttAddress } from "./connect-mqtt.ts";

test.each([
  ["mqtt://robots.example:1884", { protocol: "mqtt", host: "robots.example", port: 1884 }],
  ["mqtts://10.0.0.1", { protocol: "mqtts", host: "10.0.0.1" }],
  ["ssl://[fd00::1]:8883", { protocol: "ssl", host: "fd00::1", port: 8883 }],
  ["tcp://r%40one:a%2Fb@localhost", { protocol: "tcp", host: "localhost", username: "r@one", password: "a/b" }],
  ["wss://broker.example:443/mqtt?tenant=a", { protocol: "wss", host: "broker.example", path: "/mqtt?tenant=a" }],
  ["ws://broker.example", { protocol: "ws", host: "broker.example", path: "/" }],
])("%s names an address", (url, address) => {
  expect(mqttAddress(url)).toEqual(address);
});

test.each(["http://broker.example", "broker.example:1883", "not a URL"])("rejects %s", (url) => {
  expect(() => mqttAddress(url)).toThrow(TypeError);
});
