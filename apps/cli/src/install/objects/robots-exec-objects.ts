import { all, concat, isSet, type TemplateItem, value, when } from "../template/template.ts";
import { type InstallObject, namespaced, objectName, selectorLabels } from "./install-object.ts";

/* The server of `keelson robots exec`. */

const values = "robots.exec";

/** Port of the server in Pods and Services. */
const port = 8443;
const portName = "exec";

/** The condition under which the server can be reached. */
const isInstalled = all(isSet("robots.enabled"), isSet(`${values}.enabled`));

/** Flags of the robots operator. Without them the server listens on loopback. */
export const robotsExecArguments = (): readonly TemplateItem[] => [
  when(isInstalled, concat("--exec-bind-address=", value("bindAddress"))),
  when(isInstalled, `--exec-port=${port}`),
];

/** Port of the operator's container. */
export const robotsExecContainerPort = (): TemplateItem => when(isInstalled, { name: portName, containerPort: port });

/** Connections that the operator's NetworkPolicy allows. */
export const robotsExecIngressRule = (): TemplateItem => when(isInstalled, { ports: [{ protocol: "TCP", port }] });

/** The Service of the server. It is not the one of the broker, which may be reachable from more places. */
export function robotsExecObjects(): readonly InstallObject[] {
  const annotations = `${values}.service.annotations`;
  return [
    {
      condition: isInstalled,
      template: {
        apiVersion: "v1",
        kind: "Service",
        metadata: namespaced(`${objectName("robots")}-exec`, "robots", {
          annotations: when(isSet(annotations), value(annotations)),
        }),
        spec: {
          type: value(`${values}.service.type`),
          selector: selectorLabels("robots"),
          ports: [{ name: portName, port, targetPort: portName, protocol: "TCP" }],
        },
      },
    },
  ];
}
