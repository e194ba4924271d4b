import type { Requirement, Scenario } from "./corpus.ts";

/** Why a scenario does not get the recorded responses while other components run, and the differences that this explains. */
export interface Disturbance {
  readonly reason: string;
  /** Matches the lines of `runScenario`. Any other difference is a defect. */
  readonly explains: RegExp;
  /** Whether the scenario is often faster than the component. Otherwise it must differ in one of several runs. */
  readonly mayPass?: true;
}

/** What the scheduler and the kubelet write to a Pod of any scenario, if they are faster than its next step. */
const podsRun =
  /\/(spec\/nodeName|status\/(conditions|observedGeneration|hostIP|podIPs?|startTime|containerStatuses)): expected (null|nothing), /;

const scheduler = "the scheduler binds the Pod, and the kubelet reports its status";

/** What any write of a component changes in the metadata of an object. The test of the server alone checks it. */
const isWritten =
  /metadata\/(resourceVersion: expected "<rv:\d+>", got |managedFields\/\d+: expected nothing, got \{"manager":"kube(let|-scheduler|-controller-manager)")/;

/**
 * Scenarios that a running `keelson up` disturbs, by `category/name`. No cluster passes them: the recordings require that no scheduler and
 * no kubelet acts on their Pods.
 */
export const disturbances: ReadonlyMap<string, Disturbance> = new Map([
  [
    "autoscaling/v1-and-v2",
    {
      reason: "the autoscaler reports that its target does not exist",
      explains:
        /^(status: \/body\/\/status\/conditions|as-v1: \/body\/metadata\/annotations\/autoscaling\.alpha\.kubernetes\.io\/conditions): /,
    },
  ],
  [
    "controllers/deployment-makes-replicaset-and-pods",
    {
      reason: "the kubelet reports that the Pods, which the scenario declares ready, are not",
      explains: /^available: /,
      mayPass: true,
    },
  ],
  ["crud/pod-update-rules", { reason: scheduler, explains: podsRun }],
  [
    "deletion/pod-without-node",
    {
      reason: "the scheduler gives the Pod a node, so its deletion waits for the kubelet",
      explains: /^(gone|again): /,
      mayPass: true,
    },
  ],
  ["lists/field-selectors-pods", { reason: "the scheduler binds the Pod", explains: /^(s4|s7): \/body\/\/items\// }],
  ["negotiation/pod-table", { reason: scheduler, explains: /^table: \/body\/rows\/0\/cells\/[256]: / }],
  [
    "podsubresources/resize",
    { reason: "the kubelet changes the Pod after it was read", explains: /^(json|put|stale|labels-ignored): /, mayPass: true },
  ],
  ["subresources/binding", { reason: "the scheduler binds the Pod first", explains: /./, mayPass: true }],
  [
    "watches/field-selector-transitions",
    {
      reason: scheduler,
      explains: /^[a-z]+: \/events\/0(\/type|\/object\/spec\/nodeName|\/object\/status\/.*)?: /,
      mayPass: true,
    },
  ],
]);

/** What runs alongside the API server under `keelson up`. */
const running: ReadonlySet<Requirement> = new Set([
  "garbage-collector",
  "mutating-admission-policy",
  "namespace-controller",
  "node-restriction",
  "policy-status-controller",
  "quota-controller",
  "workload-controllers",
]);

/** Whether the recording allows a scenario alongside the components of `keelson up`. */
export function isAllowed({ requires = [], conflicts = [] }: Scenario): boolean {
  return requires.every((each) => running.has(each)) && !conflicts.some((each) => running.has(each));
}

/** The differences that a disturbance does not explain. Lines in parentheses quote the message of a response that differs. */
export function unexplained(differences: readonly string[], disturbance?: Disturbance): readonly string[] {
  const isExpected = (line: string): boolean => podsRun.test(line) || isWritten.test(line);
  const found = differences.filter((line) => !isExpected(line) && disturbance?.explains.test(line) !== true);
  return found.every((line) => /^[\w-]+: (\(|its condition never held)/.test(line)) ? [] : found;
}
