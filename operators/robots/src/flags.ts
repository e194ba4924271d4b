import type { FlagDefinition } from "@keelson/operator/flags";
import { portFlag, switchFlag, textFlag } from "@keelson/operator/flags";

/** Flags of the MQTT server. */
export const mqttFlags = {
  bindAddress: textFlag({
    name: "mqtt-bind-address",
    value: "ADDRESS",
    description: "listen address of the embedded MQTT broker",
    default: "127.0.0.1",
  }),
  port: portFlag({
    name: "mqtt-port",
    description: "port of the embedded MQTT broker; 0 picks a free one",
    default: "1883",
    endpoint: "mqtt",
  }),
  url: textFlag({
    name: "mqtt-url",
    value: "URL",
    description: "external MQTT broker (mqtt://, mqtts://) to use instead of the embedded one",
  }),
  username: textFlag({ name: "mqtt-username", value: "NAME", description: "user name at the external broker" }),
  passwordFile: textFlag({
    name: "mqtt-password-file",
    value: "FILE",
    description: "file with the password at the external broker",
  }),
  requireTls: switchFlag({
    name: "mqtt-require-tls",
    description: "reject robots that connect to the embedded MQTT broker without TLS",
  }),
  allowV1Agents: switchFlag({
    name: "allow-v1-agents",
    description: "accept agents of the original K8s4r, which present no credentials to the embedded MQTT broker",
  }),
  execBindAddress: textFlag({
    name: "exec-bind-address",
    value: "ADDRESS",
    description: "listen address of the server of keelson robots exec; beyond loopback it serves TLS",
    default: "127.0.0.1",
  }),
  execPort: portFlag({
    name: "exec-port",
    description: "port of the server of keelson robots exec; 0 picks a free one",
    default: "0",
    endpoint: "exec",
  }),
  namespace: textFlag({
    name: "robots-namespace",
    value: "NAME",
    description: "namespace of the robots and their tasks",
    default: "default",
  }),
};

/** Flags of the operator's servers. */
export const serverFlags: readonly FlagDefinition[] = Object.values(mqttFlags);
