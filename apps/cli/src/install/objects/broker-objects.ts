import { all, concat, equals, isSet, type TemplateItem, type TemplateMap, value, when } from "../template/template.ts";
import { type InstallObject, labelsOf, namespaced, objectName, selectorLabels } from "./install-object.ts";
import { restricted, schedulingFields } from "./shared-objects.ts";

/** Component name of Mosquitto. */
const component = "mosquitto";
const port = 1883;
/** User of the image of Mosquitto. */
const user = 1883;

const usesMosquitto = equals("robots.broker.kind", component);
const hasCredentials = isSet("robots.broker.credentialsSecret");
const isInstalled = all(isSet("robots.enabled"), usesMosquitto);
const credentialsFolder = "/etc/keelson/mqtt";

/** Flags of the robots operator that select the broker. The embedded broker needs none. */
export const brokerSettings = (): readonly TemplateItem[] => [
  when(usesMosquitto, `--mqtt-url=mqtt://${objectName(component)}:${port}`),
  when(equals("robots.broker.kind", "external"), concat("--mqtt-url=", value("robots.broker.url"))),
  when(hasCredentials, "--mqtt-username=$(MQTT_USERNAME)"),
  when(hasCredentials, `--mqtt-password-file=${credentialsFolder}/password`),
];

/** Variables of the robots operator. */
export const brokerVariables = (): readonly TemplateItem[] => [
  when(hasCredentials, {
    name: "MQTT_USERNAME",
    valueFrom: { secretKeyRef: { name: value("robots.broker.credentialsSecret"), key: "username" } },
  }),
];

/** Volume mounts of the robots operator. */
export const brokerMounts = (): readonly TemplateItem[] => [
  when(hasCredentials, { name: "mqtt", mountPath: credentialsFolder, readOnly: true }),
];

/** Volumes of the robots operator. */
export const brokerVolumes = (): readonly TemplateItem[] => [
  when(hasCredentials, { name: "mqtt", secret: { secretName: value("robots.broker.credentialsSecret") } }),
];

/** Mosquitto, for `robots.broker.kind: mosquitto`. It rejects clients without a password. */
export function mosquittoObjects(): readonly InstallObject[] {
  const metadata = namespaced(objectName(component), component);
  const config = [
    "listener 1883",
    "password_file /mosquitto/secrets/passwords",
    "allow_anonymous false",
    "persistence false",
    "",
  ];
  const templates: readonly TemplateMap[] = [
    { apiVersion: "v1", kind: "ConfigMap", metadata, data: { "mosquitto.conf": config.join("\n") } },
    {
      ...{ apiVersion: "v1", kind: "Service", metadata },
      spec: {
        type: value("robots.service.type"),
        selector: selectorLabels(component),
        ports: [{ name: "mqtt", port, targetPort: "mqtt", protocol: "TCP" }],
      },
    },
    mosquittoDeployment(metadata),
  ];
  return templates.map((template) => ({ condition: isInstalled, template }));
}

function mosquittoDeployment(metadata: TemplateMap): TemplateMap {
  const security = restricted(user);
  return {
    ...{ apiVersion: "apps/v1", kind: "Deployment", metadata },
    spec: {
      replicas: 1,
      selector: { matchLabels: selectorLabels(component) },
      strategy: { type: "Recreate" },
      template: {
        metadata: { labels: labelsOf(component) },
        spec: {
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          securityContext: security.pod,
          ...schedulingFields(),
          containers: [
            {
              name: component,
              image: value("robots.broker.mosquitto.image"),
              ports: [{ name: "mqtt", containerPort: port }],
              readinessProbe: { tcpSocket: { port: "mqtt" } },
              resources: value("robots.broker.mosquitto.resources"),
              securityContext: security.container,
              volumeMounts: [
                { name: "config", mountPath: "/mosquitto/config", readOnly: true },
                { name: "passwords", mountPath: "/mosquitto/secrets", readOnly: true },
              ],
            },
          ],
          volumes: [
            { name: "config", configMap: { name: objectName(component) } },
            { name: "passwords", secret: { secretName: value("robots.broker.mosquitto.passwordSecret"), defaultMode: 288 } },
          ],
        },
      },
    },
  };
}
