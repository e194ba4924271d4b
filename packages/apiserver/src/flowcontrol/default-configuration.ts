import { formatTime } from "@keelson/api-machinery/time";
import type { RandomSource } from "../endpoints/random-source.ts";
import { type Store, storageKey } from "../storage/store.ts";
import {
  flowControlGroup,
  type FlowRules,
  type FlowSchemaObject,
  type FlowSubject,
  type PriorityLevelObject,
} from "./configuration.ts";

const all = ["*"];
const everything: Omit<FlowRules, "subjects"> = {
  resourceRules: [{ verbs: all, apiGroups: all, resources: all, clusterScope: true, namespaces: all }],
  nonResourceRules: [{ verbs: all, nonResourceURLs: all }],
};
const leases = { apiGroups: ["coordination.k8s.io"], resources: ["leases"], namespaces: all };

const groups = (...names: string[]): FlowSubject[] => names.map((name) => ({ kind: "Group", group: { name } }));
const users = (...names: string[]): FlowSubject[] => names.map((name) => ({ kind: "User", user: { name } }));
const kubeSystemAccounts: FlowSubject = {
  kind: "ServiceAccount",
  serviceAccount: { namespace: "kube-system", name: "*" },
};
const everyone = groups("system:unauthenticated", "system:authenticated");
const controllerManager = "system:kube-controller-manager";
const scheduler = "system:kube-scheduler";

/** Shares, percentage to lend, queues and hand size of the default limited levels. All queues hold 50 requests. */
const limitedLevels: Readonly<Record<string, readonly [shares: number, lendable: number, queues: number, handSize: number]>> = {
  "global-default": [20, 50, 128, 6],
  "leader-election": [10, 0, 16, 4],
  "node-high": [40, 25, 64, 6],
  system: [30, 33, 64, 6],
  "workload-high": [40, 50, 128, 6],
  "workload-low": [100, 90, 128, 6],
};

interface DefaultSchema {
  readonly level: string;
  readonly precedence: number;
  readonly distinguisher?: "ByUser" | "ByNamespace";
  readonly rules: FlowRules;
}

const schemas: Readonly<Record<string, DefaultSchema>> = {
  "catch-all": {
    level: "catch-all",
    precedence: 10_000,
    distinguisher: "ByUser",
    rules: { subjects: everyone, ...everything },
  },
  exempt: { level: "exempt", precedence: 1, rules: { subjects: groups("system:masters"), ...everything } },
  "global-default": {
    level: "global-default",
    precedence: 9_900,
    distinguisher: "ByUser",
    rules: { subjects: everyone, ...everything },
  },
  "kube-controller-manager": {
    level: "workload-high",
    precedence: 800,
    distinguisher: "ByNamespace",
    rules: { subjects: users(controllerManager), ...everything },
  },
  "kube-scheduler": {
    level: "workload-high",
    precedence: 800,
    distinguisher: "ByNamespace",
    rules: { subjects: users(scheduler), ...everything },
  },
  "kube-system-service-accounts": {
    level: "workload-high",
    precedence: 900,
    distinguisher: "ByNamespace",
    rules: { subjects: [kubeSystemAccounts], ...everything },
  },
  probes: {
    level: "exempt",
    precedence: 2,
    rules: {
      subjects: everyone,
      nonResourceRules: [{ verbs: ["get"], nonResourceURLs: ["/healthz", "/readyz", "/livez"] }],
    },
  },
  "service-accounts": {
    level: "workload-low",
    precedence: 9_000,
    distinguisher: "ByUser",
    rules: { subjects: groups("system:serviceaccounts"), ...everything },
  },
  "system-leader-election": {
    level: "leader-election",
    precedence: 100,
    distinguisher: "ByUser",
    rules: {
      subjects: [...users(controllerManager, scheduler), kubeSystemAccounts],
      resourceRules: [{ verbs: ["get", "create", "update"], ...leases }],
    },
  },
  "system-node-high": {
    level: "node-high",
    precedence: 400,
    distinguisher: "ByUser",
    rules: {
      subjects: groups("system:nodes"),
      resourceRules: [
        { verbs: all, apiGroups: [""], resources: ["nodes", "nodes/status"], clusterScope: true, namespaces: all },
        { verbs: all, ...leases },
      ],
    },
  },
  "system-nodes": {
    level: "system",
    precedence: 500,
    distinguisher: "ByUser",
    rules: { subjects: groups("system:nodes"), ...everything },
  },
};

/** The default FlowSchemas and PriorityLevelConfigurations of kube-apiserver. */
function defaultFlowControl(): readonly (FlowSchemaObject | PriorityLevelObject)[] {
  return [
    level("exempt", { type: "Exempt", exempt: { nominalConcurrencyShares: 0, lendablePercent: 0 } }),
    level("catch-all", {
      type: "Limited",
      limited: { nominalConcurrencyShares: 5, lendablePercent: 0, limitResponse: { type: "Reject" } },
    }),
    ...Object.entries(limitedLevels).map(([name, [nominalConcurrencyShares, lendablePercent, queues, handSize]]) =>
      level(name, {
        type: "Limited",
        limited: {
          nominalConcurrencyShares,
          lendablePercent,
          limitResponse: { type: "Queue", queuing: { queues, handSize, queueLengthLimit: 50 } },
        },
      }),
    ),
    ...Object.entries(schemas).map(([name, { level: levelName, precedence, distinguisher, rules }]) =>
      object<FlowSchemaObject>("FlowSchema", name, {
        priorityLevelConfiguration: { name: levelName },
        matchingPrecedence: precedence,
        ...(distinguisher === undefined ? {} : { distinguisherMethod: { type: distinguisher } }),
        rules: [rules],
      }),
    ),
  ];
}

/** Creates missing default objects. Existing ones are left unchanged. */
export async function ensureFlowControl(
  store: Pick<Store, "get" | "write">,
  options: { readonly now: () => number; readonly random: Pick<RandomSource, "uuid"> },
): Promise<void> {
  const creationTimestamp = formatTime(options.now());
  await Promise.all(
    defaultFlowControl().map(async ({ apiVersion, kind, metadata, ...rest }) => {
      const plural = kind === "FlowSchema" ? "flowschemas" : "prioritylevelconfigurations";
      const key = storageKey({ group: flowControlGroup, plural }, "", metadata.name ?? "");
      if (store.get(key) !== undefined) return;
      const { name = "", ...others } = metadata;
      const created = { name, uid: options.random.uuid(), generation: 1, creationTimestamp, ...others };
      await store.write(key, 0, { apiVersion, kind, metadata: created, ...rest });
    }),
  );
}

function level(name: string, spec: PriorityLevelObject["spec"]): PriorityLevelObject {
  return object<PriorityLevelObject>("PriorityLevelConfiguration", name, spec);
}

function object<T extends FlowSchemaObject | PriorityLevelObject>(kind: string, name: string, spec: T["spec"]): T {
  const metadata = { name, annotations: { "apf.kubernetes.io/autoupdate-spec": "true" } };
  return { apiVersion: `${flowControlGroup}/v1`, kind, metadata, spec, status: {} } as unknown as T;
}
