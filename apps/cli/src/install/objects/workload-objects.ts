import { type DeploymentSetting, type Operator, webhookNameOf } from "@keelson/operator";
import {
  all,
  choose,
  concat,
  type Condition,
  equals,
  isSet,
  merge,
  not,
  splice,
  type TemplateItem,
  type TemplateMap,
  value,
  when,
} from "../template/template.ts";
import { brokerMounts, brokerSettings, brokerVariables, brokerVolumes } from "./broker-objects.ts";
import { type InstallObject, labelsOf, namespaced, objectName, selectorLabels } from "./install-object.ts";
import { proxyArguments, proxyContainerPort } from "./proxy-objects.ts";
import { robotsExecArguments, robotsExecContainerPort } from "./robots-exec-objects.ts";
import { restricted, schedulingFields } from "./shared-objects.ts";

/** Directory of the operators' local files. */
const dataDir = "/var/lib/keelson";

/** Ports of every operator. */
export const operatorPorts = { metrics: 8080, probes: 8081, webhooks: 9443 } as const;

/** Whether an operator has admission webhooks. */
export const hasWebhooks = ({ webhooks = [] }: Operator): boolean => webhooks.length > 0;

/** User of the image. */
const imageUser = 65_532;

/** The image of the operators. */
const operatorImage = concat(value("image.repository"), ":", value("image.tag"));

/** The condition under which clients connect to an operator's own ports. */
export const hasOwnPorts = ({ name }: Operator): Condition =>
  name === "robots" ? equals("robots.broker.kind", "embedded") : isSet(`${name}.enabled`);

/** The Deployment of an operator, its PodDisruptionBudget and its volume. */
export function workloadObjects(operator: Operator): readonly InstallObject[] {
  const { name } = operator;
  const enabled = isSet(`${name}.enabled`);
  const object = objectName(name);
  const budget: InstallObject = {
    condition: all(enabled, isSet("podDisruptionBudget.enabled")),
    template: {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: namespaced(object, name),
      spec: { maxUnavailable: 1, selector: { matchLabels: selectorLabels(name) } },
    },
  };
  return [...volumeClaim(operator), { condition: enabled, template: deployment(operator) }, budget];
}

const persistence = "sandboxes.persistence";

function volumeClaim({ name }: Operator): readonly InstallObject[] {
  if (name !== "sandboxes") return [];
  return [
    {
      condition: all(isSet("sandboxes.enabled"), isSet(`${persistence}.enabled`)),
      template: {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        metadata: namespaced(objectName(name), name),
        spec: {
          accessModes: ["ReadWriteOnce"],
          storageClassName: when(isSet(`${persistence}.storageClassName`), value(`${persistence}.storageClassName`)),
          resources: { requests: { storage: value(`${persistence}.size`) } },
        },
      },
    },
  ];
}

function deployment(operator: Operator): TemplateMap {
  const { name, deployment: needs = {} } = operator;
  const isSingle = needs.singleReplicaReason !== undefined;
  const security = restricted(imageUser);
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: namespaced(objectName(name), name),
    spec: {
      replicas: value(`${name}.replicas`),
      selector: { matchLabels: selectorLabels(name) },
      // With two Pods, a Service would send connections to the one that does not lead.
      strategy: isSingle ? { type: "Recreate" } : { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      template: {
        metadata: {
          labels: merge(labelsOf(name), "podLabels"),
          annotations: when(isSet("podAnnotations"), value("podAnnotations")),
        },
        spec: {
          serviceAccountName: name,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: 30,
          securityContext: security.pod,
          ...schedulingFields(),
          topologySpreadConstraints: when(isSet("topologySpread.enabled"), [
            {
              maxSkew: 1,
              topologyKey: "kubernetes.io/hostname",
              whenUnsatisfiable: "ScheduleAnyway",
              labelSelector: { matchLabels: selectorLabels(name) },
            },
          ]),
          containers: [container(operator, security.container)],
          volumes: volumes(operator),
        },
      },
    },
  };
}

function container(operator: Operator, securityContext: TemplateMap): TemplateMap {
  const { name } = operator;
  const probe = (path: string, more: TemplateMap): TemplateMap => ({ httpGet: { path, port: "probes" }, ...more });
  return {
    name: "operator",
    image: operatorImage,
    imagePullPolicy: value("image.pullPolicy"),
    command: ["keelson", "operator"],
    args: operatorArguments(operator),
    env: variables(operator),
    ports: ports(operator),
    startupProbe: probe("/readyz", { periodSeconds: 2, failureThreshold: 60 }),
    livenessProbe: probe("/healthz", { periodSeconds: 10, timeoutSeconds: 5 }),
    readinessProbe: probe("/readyz", { periodSeconds: 5, timeoutSeconds: 5 }),
    resources: value(`${name}.resources`),
    securityContext,
    volumeMounts: [
      { name: "data", mountPath: `${dataDir}/${name}` },
      { name: "tmp", mountPath: "/tmp" },
      when(hasMetricsCertificate, { name: "metrics-tls", mountPath: metricsCertificateDir, readOnly: true }),
      ...(name === "robots" ? brokerMounts() : []),
      ...(name === "sandboxes" ? fastPathMounts() : []),
    ],
  };
}

function operatorArguments(operator: Operator): readonly TemplateItem[] {
  const { name, deployment: needs = {} } = operator;
  const address = value("bindAddress");
  const ownPorts = hasOwnPorts(operator);
  return [
    `--only=${name}`,
    "--namespace=$(POD_NAMESPACE)",
    `--data-dir=${dataDir}`,
    concat("--log-level=", value("logLevel")),
    concat("--health-probe-bind-address=", address, `:${operatorPorts.probes}`),
    choose(
      isSet("metrics.enabled"),
      concat("--metrics-bind-address=", address, `:${operatorPorts.metrics}`),
      "--metrics-bind-address=0",
    ),
    ...(hasWebhooks(operator)
      ? [
          `--webhook-service=${webhookNameOf(operator)}`,
          concat("--webhook-bind-address=", address, `:${operatorPorts.webhooks}`),
        ]
      : []),
    choose(isSet("metrics.tls.enabled"), "--metrics-tls=always", "--metrics-tls=never"),
    when(hasMetricsCertificate, `--metrics-tls-cert-file=${metricsCertificateDir}/tls.crt`),
    when(hasMetricsCertificate, `--metrics-tls-private-key-file=${metricsCertificateDir}/tls.key`),
    ...(needs.ports ?? []).flatMap(({ bindAddressFlag, portFlag, port }) => [
      when(ownPorts, concat(`--${bindAddressFlag}=`, address)),
      when(ownPorts, `--${portFlag}=${port}`),
    ]),
    ...(needs.settings ?? []).map((setting) => settingArgument(operator, setting)),
    ...(name === "robots" ? [...brokerSettings(), ...robotsExecArguments()] : []),
    ...(name === "sandboxes" ? [...fastPathArguments(), ...proxyArguments()] : []),
    splice(`${name}.extraArgs`),
  ];
}

function settingArgument(
  { name, flags: own = [], servers }: Operator,
  { name: setting, flag }: DeploymentSetting,
): TemplateItem {
  const path = `${name}.${setting}`;
  const definition = [...own, ...servers.flatMap((server) => server.flags ?? [])].find((each) => each.name === flag);
  const isSwitch = definition?.value === undefined;
  return when(isSet(path), isSwitch ? `--${flag}` : concat(`--${flag}=`, value(path)));
}

function variables({ name, deployment: needs = {} }: Operator): readonly TemplateItem[] {
  const field = (variable: string, fieldPath: string): TemplateMap => ({
    name: variable,
    valueFrom: { fieldRef: { fieldPath } },
  });
  const variable = needs.toolImage?.variable;
  const toolImage = isSet(`${name}.toolImage`);
  return [
    field("POD_NAMESPACE", "metadata.namespace"),
    field("POD_IP", "status.podIP"),
    ...(variable === undefined
      ? []
      : [
          {
            name: variable,
            value: choose(toolImage, value(`${name}.toolImage`), operatorImage),
          },
        ]),
    ...(name === "robots" ? brokerVariables() : []),
  ];
}

function ports(operator: Operator): readonly TemplateItem[] {
  const { ports: own = [] } = operator.deployment ?? {};
  return [
    { name: "probes", containerPort: operatorPorts.probes },
    when(isSet("metrics.enabled"), { name: "metrics", containerPort: operatorPorts.metrics }),
    ...(hasWebhooks(operator) ? [{ name: "webhooks", containerPort: operatorPorts.webhooks }] : []),
    ...own.map(({ name, port }) => when(hasOwnPorts(operator), { name, containerPort: port })),
    ...(operator.name === "robots" ? [robotsExecContainerPort()] : []),
    ...(operator.name === "sandboxes" ? [proxyContainerPort()] : []),
  ];
}

function volumes({ name }: Operator): readonly TemplateItem[] {
  const persistent = isSet(`${persistence}.enabled`);
  const data: TemplateMap =
    name === "sandboxes"
      ? {
          name: "data",
          persistentVolumeClaim: when(persistent, { claimName: objectName(name) }),
          emptyDir: when(not(persistent), {}),
        }
      : { name: "data", emptyDir: {} };
  return [
    data,
    { name: "tmp", emptyDir: {} },
    when(hasMetricsCertificate, { name: "metrics-tls", secret: { secretName: value("metrics.tls.secret") } }),
    ...(name === "robots" ? brokerVolumes() : []),
    ...(name === "sandboxes"
      ? [
          when(hasToken, { name: "token", secret: { secretName: value("sandboxes.tokenSecret") } }),
          when(hasCertificate, { name: "fastpath-tls", secret: { secretName: value("sandboxes.tlsSecret") } }),
        ]
      : []),
  ];
}

/** A directory, so that the kubelet can update the certificate. */
const metricsCertificateDir = "/etc/keelson/metrics-tls";
const hasMetricsCertificate = all(isSet("metrics.tls.enabled"), isSet("metrics.tls.secret"));

const hasToken = isSet("sandboxes.tokenSecret");
const hasCertificate = isSet("sandboxes.tlsSecret");
const certificateDir = "/etc/keelson/fastpath-tls";

/** The fast path's token, which replaces a generated one, and its certificate. The latter is a directory, so that the kubelet can update it. */
function fastPathMounts(): readonly TemplateItem[] {
  const token = { name: "token", mountPath: `${dataDir}/sandboxes/fastpath-token`, subPath: "token", readOnly: true };
  return [when(hasToken, token), when(hasCertificate, { name: "fastpath-tls", mountPath: certificateDir, readOnly: true })];
}

function fastPathArguments(): readonly TemplateItem[] {
  return [
    when(hasToken, "--fastpath-allow-token"),
    when(hasCertificate, `--fastpath-tls-cert-file=${certificateDir}/tls.crt`),
    when(hasCertificate, `--fastpath-tls-private-key-file=${certificateDir}/tls.key`),
  ];
}
