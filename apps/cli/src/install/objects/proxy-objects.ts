import { all, choose, concat, isSet, type TemplateItem, type TemplateMap, value, when } from "../template/template.ts";
import { type InstallObject, labelsOf, namespaced, objectName } from "./install-object.ts";

/* The HTTP proxy to exposed ports of sandboxes. */

const values = "sandboxes.proxy";

/** Port of the proxy in Pods and Services. */
const port = 8443;
const portName = "proxy";

/** The condition under which the proxy is installed. */
const isInstalled = all(isSet("sandboxes.enabled"), isSet(`${values}.enabled`));

/** Flags of the sandboxes operator. */
export const proxyArguments = (): readonly TemplateItem[] => [
  when(isInstalled, `--sandbox-proxy-port=${port}`),
  when(isInstalled, concat("--sandbox-proxy-bind-address=", value("bindAddress"))),
  when(
    isInstalled,
    choose(
      isSet(`${values}.url`),
      concat("--sandbox-proxy-url=", value(`${values}.url`)),
      concat("--sandbox-proxy-url=https://", value(`${values}.host`)),
    ),
  ),
];

/** Port of the operator's container. */
export const proxyContainerPort = (): TemplateItem => when(isInstalled, { name: portName, containerPort: port });

/** Port of the operator's Service. */
export const proxyServicePort = (): TemplateItem =>
  when(isInstalled, { name: portName, port, targetPort: portName, protocol: "TCP" });

/** Connections that the operator's NetworkPolicy allows. */
export const proxyIngressRule = (): TemplateItem => when(isInstalled, { ports: [{ protocol: "TCP", port }] });

/** The Ingress of all host names of the proxy. */
export function proxyObjects(): readonly InstallObject[] {
  const host = concat("*.", value(`${values}.host`));
  const name = `${objectName("sandboxes")}-proxy`;
  const ingress = `${values}.ingress`;
  const template: TemplateMap = {
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: namespaced(name, "sandboxes", {
      labels: labelsOf("sandboxes"),
      annotations: when(isSet(`${ingress}.annotations`), value(`${ingress}.annotations`)),
    }),
    spec: {
      ingressClassName: when(isSet(`${ingress}.className`), value(`${ingress}.className`)),
      tls: when(isSet(`${ingress}.tlsSecret`), [{ hosts: [host], secretName: value(`${ingress}.tlsSecret`) }]),
      rules: [
        {
          host,
          http: {
            paths: [
              {
                path: "/",
                pathType: "Prefix",
                backend: { service: { name: objectName("sandboxes"), port: { name: portName } } },
              },
            ],
          },
        },
      ],
    },
  };
  return [{ condition: all(isInstalled, isSet(`${ingress}.enabled`)), template }];
}
