import type { Operator } from "@keelson/operator";
import {
  all,
  any,
  choose,
  concat,
  installNamespace,
  isSet,
  merge,
  not,
  type TemplateItem,
  type TemplateMap,
  value,
  when,
} from "../template/template.ts";
import { type InstallObject, labelsOf, namespaced, objectName, selectorLabels } from "./install-object.ts";
import { proxyIngressRule, proxyServicePort } from "./proxy-objects.ts";
import { robotsExecIngressRule } from "./robots-exec-objects.ts";
import { hasOwnPorts, hasWebhooks, operatorPorts } from "./workload-objects.ts";

/** The Service, NetworkPolicy and ServiceMonitor of an operator. */
export function networkObjects(operator: Operator): readonly InstallObject[] {
  const { name } = operator;
  const enabled = isSet(`${name}.enabled`);
  const hasMetrics = isSet("metrics.enabled");
  const hasPorts = (operator.deployment?.ports ?? []).length > 0;
  return [
    {
      condition: hasWebhooks(operator) ? enabled : all(enabled, hasPorts ? any(hasMetrics, hasOwnPorts(operator)) : hasMetrics),
      template: service(operator),
    },
    { condition: all(enabled, isSet("networkPolicy.enabled")), template: networkPolicy(operator) },
    { condition: all(enabled, hasMetrics, isSet("metrics.serviceMonitor.enabled")), template: serviceMonitor(operator) },
  ];
}

function service(operator: Operator): TemplateMap {
  const { name } = operator;
  const ports = operator.deployment?.ports ?? [];
  const hasServiceValues = ports.length > 0;
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: namespaced(
      objectName(name),
      name,
      hasServiceValues ? { annotations: when(isSet(`${name}.service.annotations`), value(`${name}.service.annotations`)) } : {},
    ),
    spec: {
      type: hasServiceValues ? value(`${name}.service.type`) : "ClusterIP",
      selector: selectorLabels(name),
      ports: [
        ...ports.map(
          ({ name: port, port: number, appProtocol }): TemplateItem =>
            when(hasOwnPorts(operator), {
              name: port,
              port: number,
              targetPort: port,
              protocol: "TCP",
              ...(appProtocol === undefined ? {} : { appProtocol }),
            }),
        ),
        ...(name === "sandboxes" ? [proxyServicePort()] : []),
        ...(hasWebhooks(operator) ? [{ name: "webhooks", port: 443, targetPort: "webhooks", protocol: "TCP" }] : []),
        when(isSet("metrics.enabled"), {
          name: "metrics",
          port: operatorPorts.metrics,
          targetPort: "metrics",
          protocol: "TCP",
        }),
      ],
    },
  };
}

/** Nothing but the operator's ports can be reached. Outgoing connections are open: the address of the API server is not known here. */
function networkPolicy(operator: Operator): TemplateMap {
  const { name } = operator;
  const allow = (port: number): TemplateMap => ({ ports: [{ protocol: "TCP", port }] });
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: namespaced(objectName(name), name),
    spec: {
      podSelector: { matchLabels: selectorLabels(name) },
      policyTypes: ["Ingress"],
      ingress: [
        allow(operatorPorts.probes),
        when(isSet("metrics.enabled"), allow(operatorPorts.metrics)),
        ...(hasWebhooks(operator) ? [allow(operatorPorts.webhooks)] : []),
        ...(operator.deployment?.ports ?? []).map(({ port }) => when(hasOwnPorts(operator), allow(port))),
        ...(name === "robots" ? [robotsExecIngressRule()] : []),
        ...(name === "sandboxes" ? [proxyIngressRule()] : []),
      ],
    },
  };
}

const isTls = isSet("metrics.tls.enabled");
const hasSecret = isSet("metrics.tls.secret");

function serviceMonitor({ name }: Operator): TemplateMap {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "ServiceMonitor",
    metadata: namespaced(objectName(name), name, { labels: merge(labelsOf(name), "metrics.serviceMonitor.labels") }),
    spec: {
      selector: { matchLabels: selectorLabels(name) },
      endpoints: [
        {
          port: "metrics",
          // The operators' own labels `namespace` and `pod` are those of the objects that a metric is about.
          honorLabels: true,
          interval: value("metrics.serviceMonitor.interval"),
          scheme: choose(isTls, "https", "http"),
          tlsConfig: when(isTls, {
            insecureSkipVerify: when(not(hasSecret), true),
            ca: when(hasSecret, { secret: { name: value("metrics.tls.secret"), key: "ca.crt" } }),
            serverName: when(hasSecret, concat(objectName(name), ".", installNamespace, ".svc")),
          }),
          bearerTokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token",
        },
      ],
    },
  };
}
